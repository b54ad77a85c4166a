;; fd_seek
;; From the start, the position, the end; nowhere below zero or above 2**63 - 1.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $fd_tell (param i32 i32) (result i32)))
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
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (call $fd_seek (i32.load (i32.const 64)) (i64.const 5) (i32.const 0) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 0)) (i64.const 5)) (i32.const 1))
    (call $is (i32.const 4) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0xfffffffffffffffe) (i32.const 1) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 5) (i64.eq (i64.load (i32.const 0)) (i64.const 3)) (i32.const 1))
    (call $is (i32.const 6) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0xffffffffffffffff) (i32.const 2) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 0)) (i64.const 10)) (i32.const 1))
    (call $is (i32.const 8) (call $fd_seek (i32.load (i32.const 64)) (i64.const 1000) (i32.const 1) (i32.const 0)) (i32.const 0))
    ;; past the end is allowed
    (call $is (i32.const 9) (i64.eq (i64.load (i32.const 0)) (i64.const 1010)) (i32.const 1))
    (call $is (i32.const 10) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0xfffffffffffff830) (i32.const 1) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 11) (call $fd_seek (i32.load (i32.const 64)) (i64.const 9223372036854775807) (i32.const 0) (i32.const 0)) (i32.const 0))
    ;; overflow
    (call $is (i32.const 12) (call $fd_seek (i32.load (i32.const 64)) (i64.const 1) (i32.const 1) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 13) (call $fd_seek (i32.load (i32.const 64)) (i64.const 9223372036854775807) (i32.const 2) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 14) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0x8000000000000000) (i32.const 0) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 15) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0) (i32.const 3) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 16) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0) (i32.const 255) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 17) (call $fd_seek (i32.load (i32.const 64)) (i64.const 0) (i32.const 0) (i32.const 65532)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 18) (call $fd_tell (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 19) (i64.eq (i64.load (i32.const 0)) (i64.const 9223372036854775807)) (i32.const 1))
    (call $is (i32.const 20) (call $fd_seek (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0)) (i32.const 70)) ;; SPIPE
    (call $is (i32.const 21) (call $fd_seek (i32.const 4) (i64.const 0) (i32.const 0) (i32.const 0)) (i32.const 8)) ;; BADF
    (call $is (i32.const 22) (call $fd_seek (i32.const 99) (i64.const 0) (i32.const 0) (i32.const 0)) (i32.const 8)) ;; BADF
    (global.get $failed)))
