;; fd_filestat_get
;; Device, inode, type, links, size, times.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_rights" (func $fd_fdstat_set_rights (param i32 i64 i64) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "full/inner.txt")
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
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (call $fd_filestat_get (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 0)) (i64.const 1)) (i32.const 1))
    (call $is (i32.const 4) (i32.load8_u (i32.const 16)) (i32.const 4))
    (call $is (i32.const 5) (i64.eq (i64.load (i32.const 24)) (i64.const 1)) (i32.const 1))
    (call $is (i32.const 6) (i64.eq (i64.load (i32.const 32)) (i64.const 11)) (i32.const 1))
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 40)) (i64.const 1600000000000000000)) (i32.const 1))
    (call $is (i32.const 8) (i64.eq (i64.load (i32.const 48)) (i64.const 1600000000000000000)) (i32.const 1))
    (call $is (i32.const 9) (i64.eq (i64.load (i32.const 56)) (i64.const 1600000000000000000)) (i32.const 1))
    (call $is (i32.const 10) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 14) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 0)) ;; "full/inner.txt"
    (call $is (i32.const 11) (call $fd_filestat_get (i32.load (i32.const 68)) (i32.const 128)) (i32.const 0))
    ;; two files, two inodes
    (call $is (i32.const 12) (i64.ne (i64.load (i32.const 8)) (i64.load (i32.const 0x88))) (i32.const 1))
    (call $is (i32.const 13) (call $fd_filestat_get (i32.const 4) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 14) (i32.load8_u (i32.const 16)) (i32.const 3))
    (call $is (i32.const 15) (call $fd_filestat_get (i32.const 1) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 16) (i32.load8_u (i32.const 16)) (i32.const 2))
    (call $is (i32.const 17) (i64.eq (i64.load (i32.const 32)) (i64.const 0)) (i32.const 1))
    (call $is (i32.const 18) (call $fd_filestat_get (i32.const 99) (i32.const 0)) (i32.const 8)) ;; BADF
    (call $is (i32.const 19) (call $fd_filestat_get (i32.const 1) (i32.const 65473)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 20) (call $fd_fdstat_set_rights (i32.const 1) (i64.const 64) (i64.const 0)) (i32.const 0))
    (call $is (i32.const 21) (call $fd_filestat_get (i32.const 1) (i32.const 0)) (i32.const 76)) ;; NOTCAPABLE
    (global.get $failed)))
