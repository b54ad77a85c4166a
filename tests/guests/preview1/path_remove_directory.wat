;; path_remove_directory
;; Empty directories only.
(module
  (import "wasi_snapshot_preview1" "path_remove_directory" (func $path_remove_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "full")
  (data (i32.const 0x1010) "hello.txt")
  (data (i32.const 0x1020) "hello.txt/")
  (data (i32.const 0x1030) "nope")
  (data (i32.const 0x1040) ".")
  (data (i32.const 0x1050) "empty/.")
  (data (i32.const 0x1060) "full/..")
  (data (i32.const 0x1070) "..")
  (data (i32.const 0x1080) "empty")
  (data (i32.const 0x1090) "empty/")
  (data (i32.const 0x10a0) "x")
  (data (i32.const 0x10b0) "lib")
  (data (i32.const 0x10c0) "work")
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
    (call $is (i32.const 1) (call $path_remove_directory (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 55)) ;; "full" NOTEMPTY
    (call $is (i32.const 2) (call $path_remove_directory (i32.const 4) (i32.const 4112) (i32.const 9)) (i32.const 54)) ;; "hello.txt" NOTDIR
    (call $is (i32.const 3) (call $path_remove_directory (i32.const 4) (i32.const 4128) (i32.const 10)) (i32.const 54)) ;; "hello.txt/" NOTDIR
    (call $is (i32.const 4) (call $path_remove_directory (i32.const 4) (i32.const 4144) (i32.const 4)) (i32.const 44)) ;; "nope" NOENT
    (call $is (i32.const 5) (call $path_remove_directory (i32.const 4) (i32.const 4160) (i32.const 1)) (i32.const 28)) ;; "." INVAL
    (call $is (i32.const 6) (call $path_remove_directory (i32.const 4) (i32.const 4176) (i32.const 7)) (i32.const 28)) ;; "empty/." INVAL
    (call $is (i32.const 7) (call $path_remove_directory (i32.const 4) (i32.const 4192) (i32.const 7)) (i32.const 28)) ;; "full/.." INVAL
    (call $is (i32.const 8) (call $path_remove_directory (i32.const 4) (i32.const 4208) (i32.const 2)) (i32.const 63)) ;; ".." PERM
    (call $is (i32.const 9) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4224) (i32.const 5) (i32.const 2) (i64.const 25600) (i64.const 2) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "empty"
    (call $is (i32.const 10) (call $path_remove_directory (i32.const 4) (i32.const 4240) (i32.const 6)) (i32.const 0)) ;; "empty/"
    (call $is (i32.const 11) (call $path_remove_directory (i32.const 4) (i32.const 4224) (i32.const 5)) (i32.const 44)) ;; "empty" NOENT
    ;; nothing can be made in a directory that is gone
    (call $is (i32.const 12) (call $path_open (i32.load (i32.const 64)) (i32.const 0) (i32.const 4256) (i32.const 1) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 44)) ;; "x" NOENT
    (call $is (i32.const 13) (call $path_remove_directory (i32.const 3) (i32.const 4272) (i32.const 3)) (i32.const 69)) ;; "lib" ROFS
    (call $is (i32.const 14) (call $path_remove_directory (i32.const 3) (i32.const 4288) (i32.const 4)) (i32.const 69)) ;; "work" ROFS
    (call $is (i32.const 15) (call $path_remove_directory (i32.const 99) (i32.const 4256) (i32.const 1)) (i32.const 8)) ;; "x" BADF
    (global.get $failed)))
