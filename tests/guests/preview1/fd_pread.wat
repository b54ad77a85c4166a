;; fd_pread
;; Reads at an offset and leaves the position alone.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pread" (func $fd_pread (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $fd_tell (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x80) "\00\01\00\00\03\00\00\00\04\01\00\00\04\00\00\00")
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
    (call $is (i32.const 2) (call $fd_pread (i32.load (i32.const 64)) (i32.const 128) (i32.const 2) (i64.const 6) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 3) (i32.load (i32.const 96)) (i32.const 5))
    (call $is (i32.const 4) (i32.load (i32.const 256)) (i32.const 7499639))
    (call $is (i32.const 5) (i32.load16_u (i32.const 0x104)) (i32.const 25708))
    (call $is (i32.const 6) (call $fd_tell (i32.load (i32.const 64)) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 104)) (i64.const 0)) (i32.const 1))
    (call $is (i32.const 8) (call $fd_pread (i32.load (i32.const 64)) (i32.const 128) (i32.const 2) (i64.const 11) (i32.const 96)) (i32.const 0))
    ;; at the end
    (call $is (i32.const 9) (i32.load (i32.const 96)) (i32.const 0))
    (call $is (i32.const 10) (call $fd_pread (i32.load (i32.const 64)) (i32.const 128) (i32.const 2) (i64.const 9223372036854775807) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 11) (i32.load (i32.const 96)) (i32.const 0))
    (call $is (i32.const 12) (call $fd_pread (i32.load (i32.const 64)) (i32.const 128) (i32.const 2) (i64.const 0x8000000000000000) (i32.const 96)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 13) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 14) (call $fd_pread (i32.load (i32.const 68)) (i32.const 128) (i32.const 1) (i64.const 0) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 15) (call $fd_pread (i32.const 0) (i32.const 128) (i32.const 1) (i64.const 0) (i32.const 96)) (i32.const 70)) ;; SPIPE
    (call $is (i32.const 16) (call $fd_pread (i32.const 4) (i32.const 128) (i32.const 1) (i64.const 0) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 17) (call $fd_pread (i32.const 99) (i32.const 128) (i32.const 1) (i64.const 0) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 18) (call $fd_pread (i32.load (i32.const 64)) (i32.const 65532) (i32.const 1) (i64.const 0) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 19) (call $fd_pread (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i64.const 0) (i32.const 65533)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
