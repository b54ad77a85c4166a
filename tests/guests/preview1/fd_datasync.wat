;; fd_datasync
;; Files and streams; not a directory.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_datasync" (func $fd_datasync (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_rights" (func $fd_fdstat_set_rights (param i32 i64 i64) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
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
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 3) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (call $fd_datasync (i32.load (i32.const 64))) (i32.const 0))
    (call $is (i32.const 3) (call $fd_datasync (i32.const 2)) (i32.const 0))
    (call $is (i32.const 4) (call $fd_datasync (i32.const 4)) (i32.const 8)) ;; BADF
    (call $is (i32.const 5) (call $fd_datasync (i32.const 99)) (i32.const 8)) ;; BADF
    (call $is (i32.const 6) (call $fd_fdstat_set_rights (i32.load (i32.const 64)) (i64.const 2) (i64.const 0)) (i32.const 0))
    (call $is (i32.const 7) (call $fd_datasync (i32.load (i32.const 64))) (i32.const 76)) ;; NOTCAPABLE
    (global.get $failed)))
