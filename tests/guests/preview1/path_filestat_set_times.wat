;; path_filestat_set_times
;; Times by name.
(module
  (import "wasi_snapshot_preview1" "path_filestat_set_times" (func $path_filestat_set_times (param i32 i32 i32 i32 i64 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "nope")
  (data (i32.const 0x1020) "lib/file.txt")
  (data (i32.const 0x1030) "x")
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
    (call $is (i32.const 1) (call $path_filestat_set_times (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 5)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 40)) (i64.const 1)) (i32.const 1))
    (call $is (i32.const 4) (i64.eq (i64.load (i32.const 48)) (i64.const 2)) (i32.const 1))
    (call $is (i32.const 5) (call $path_filestat_set_times (i32.const 4) (i32.const 1) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 10)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 6) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 40)) (i64.const 1700000000000000000)) (i32.const 1))
    (call $is (i32.const 8) (i64.eq (i64.load (i32.const 48)) (i64.const 1700000000000000000)) (i32.const 1))
    (call $is (i32.const 9) (call $path_filestat_set_times (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 3)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 10) (call $path_filestat_set_times (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 12)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 11) (call $path_filestat_set_times (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 16)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 12) (call $path_filestat_set_times (i32.const 4) (i32.const 2) (i32.const 4096) (i32.const 9) (i64.const 1) (i64.const 2) (i32.const 0)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 13) (call $path_filestat_set_times (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 4) (i64.const 1) (i64.const 2) (i32.const 0)) (i32.const 44)) ;; "nope" NOENT
    (call $is (i32.const 14) (call $path_filestat_set_times (i32.const 3) (i32.const 0) (i32.const 4128) (i32.const 12) (i64.const 1) (i64.const 2) (i32.const 5)) (i32.const 69)) ;; "lib/file.txt" ROFS
    (call $is (i32.const 15) (call $path_filestat_set_times (i32.const 99) (i32.const 0) (i32.const 4144) (i32.const 1) (i64.const 1) (i64.const 2) (i32.const 0)) (i32.const 8)) ;; "x" BADF
    (global.get $failed)))
