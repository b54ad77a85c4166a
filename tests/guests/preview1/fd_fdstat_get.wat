;; fd_fdstat_get
;; Type, flags and rights.  A terminal is a character device that can not seek.
(module
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fd_fdstat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
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
    (call $is (i32.const 1) (call $fd_fdstat_get (i32.const 1) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 2) (i32.load8_u (i32.const 0)) (i32.const 2))
    (call $is (i32.const 3) (i32.load (i32.const 12)) (i32.const 0))
    ;; write; neither read nor seek nor tell
    (call $is (i32.const 4) (i32.and (i32.load (i32.const 8)) (i32.const 0x66)) (i32.const 64))
    (call $is (i32.const 5) (call $fd_fdstat_get (i32.const 0) (i32.const 0)) (i32.const 0))
    ;; standard input is no terminal
    (call $is (i32.const 6) (i32.load8_u (i32.const 0)) (i32.const 0))
    (call $is (i32.const 7) (i32.and (i32.load (i32.const 8)) (i32.const 0x42)) (i32.const 2))
    (call $is (i32.const 8) (call $fd_fdstat_get (i32.const 4) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 9) (i32.load8_u (i32.const 0)) (i32.const 3))
    ;; a directory is not read, written, sought or cut
    (call $is (i32.const 10) (i32.and (i32.load (i32.const 8)) (i32.const 0x400066)) (i32.const 0))
    (call $is (i32.const 11) (i32.load (i32.const 16)) (i32.const 1073741823))
    (call $is (i32.const 12) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 262146) (i64.const 2) (i32.const 5) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 13) (call $fd_fdstat_get (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 14) (i32.load8_u (i32.const 0)) (i32.const 4))
    (call $is (i32.const 15) (i32.load16_u (i32.const 2)) (i32.const 5))
    ;; rights that mean nothing on a file are not given
    (call $is (i32.const 16) (i64.eq (i64.load (i32.const 8)) (i64.const 2)) (i32.const 1))
    (call $is (i32.const 17) (i64.eq (i64.load (i32.const 16)) (i64.const 2)) (i32.const 1))
    (call $is (i32.const 18) (call $fd_fdstat_get (i32.const 99) (i32.const 0)) (i32.const 8)) ;; BADF
    (call $is (i32.const 19) (call $fd_fdstat_get (i32.const 1) (i32.const 65513)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
