;; fd_fdstat_set_flags
;; Append mode goes on and off; unknown flags are refused.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $fd_fdstat_set_flags (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $fd_tell (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_rights" (func $fd_fdstat_set_rights (param i32 i64 i64) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x80) "\00\01\00\00\02\00\00\00")
  (data (i32.const 0x100) "ab")
  (data (i32.const 0x1000) "new")
  (global $failed (mut i32) (i32.const 0))
  ;; Remembers the first step whose result is not the wanted one, as step * 65536 + result.
  (func $is (param $step i32) (param $got i32) (param $want i32)
    (if (i32.and (i32.eqz (global.get $failed)) (i32.ne (local.get $got) (local.get $want)))
      (then
        (global.set $failed
          (i32.or
            (i32.shl (local.get $step) (i32.const 16))
            (i32.and (local.get $got) (i32.const 0xffff)))))))
  (func (export "test") (result i32)
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 1) (i64.const 74) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 2) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 3) (call $fd_fdstat_set_flags (i32.load (i32.const 64)) (i32.const 1)) (i32.const 0))
    (call $is (i32.const 4) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0) (i32.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 5) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 6) (call $fd_tell (i32.load (i32.const 64)) (i32.const 104)) (i32.const 0))
    ;; written at the end
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 104)) (i64.const 4)) (i32.const 1))
    (call $is (i32.const 8) (call $fd_fdstat_set_flags (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 9) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0) (i32.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 10) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 11) (call $fd_filestat_get (i32.load (i32.const 64)) (i32.const 512)) (i32.const 0))
    ;; overwritten at the start
    (call $is (i32.const 12) (i64.eq (i64.load (i32.const 544)) (i64.const 4)) (i32.const 1))
    (call $is (i32.const 13) (call $fd_fdstat_set_flags (i32.load (i32.const 64)) (i32.const 31)) (i32.const 0))
    (call $is (i32.const 14) (call $fd_fdstat_set_flags (i32.load (i32.const 64)) (i32.const 32)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 15) (call $fd_fdstat_get (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 16) (i32.load16_u (i32.const 2)) (i32.const 31))
    (call $is (i32.const 17) (call $fd_fdstat_set_flags (i32.const 1) (i32.const 4)) (i32.const 0))
    (call $is (i32.const 18) (call $fd_fdstat_set_flags (i32.const 4) (i32.const 4)) (i32.const 8)) ;; BADF
    (call $is (i32.const 19) (call $fd_fdstat_set_flags (i32.const 99) (i32.const 0)) (i32.const 8)) ;; BADF
    (call $is (i32.const 20) (call $fd_fdstat_set_rights (i32.load (i32.const 64)) (i64.const 66) (i64.const 0)) (i32.const 0))
    (call $is (i32.const 21) (call $fd_fdstat_set_flags (i32.load (i32.const 64)) (i32.const 0)) (i32.const 76)) ;; NOTCAPABLE
    (global.get $failed)))
