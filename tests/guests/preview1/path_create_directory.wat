;; path_create_directory
;; Fresh names in writable directories.
(module
  (import "wasi_snapshot_preview1" "path_create_directory" (func $path_create_directory (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "d")
  (data (i32.const 0x1010) "d/e/")
  (data (i32.const 0x1020) "hello.txt")
  (data (i32.const 0x1030) "no/e")
  (data (i32.const 0x1040) "hello.txt/e")
  (data (i32.const 0x1050) ".")
  (data (i32.const 0x1060) "new/.")
  (data (i32.const 0x1070) "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")
  (data (i32.const 0x1170) "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")
  (data (i32.const 0x1270) "/abs")
  (data (i32.const 0x1280) "../up")
  (data (i32.const 0x1290) "a\00b")
  (data (i32.const 0x12a0) "\ff")
  (data (i32.const 0x12b0) "lib/d")
  (data (i32.const 0x12c0) "work/via-root")
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
    (call $is (i32.const 1) (call $path_create_directory (i32.const 4) (i32.const 4096) (i32.const 1)) (i32.const 0)) ;; "d"
    (call $is (i32.const 2) (call $path_create_directory (i32.const 4) (i32.const 4096) (i32.const 1)) (i32.const 20)) ;; "d" EXIST
    ;; a trailing slash is fine
    (call $is (i32.const 3) (call $path_create_directory (i32.const 4) (i32.const 4112) (i32.const 4)) (i32.const 0)) ;; "d/e/"
    (call $is (i32.const 4) (call $path_create_directory (i32.const 4) (i32.const 4128) (i32.const 9)) (i32.const 20)) ;; "hello.txt" EXIST
    (call $is (i32.const 5) (call $path_create_directory (i32.const 4) (i32.const 4144) (i32.const 4)) (i32.const 44)) ;; "no/e" NOENT
    (call $is (i32.const 6) (call $path_create_directory (i32.const 4) (i32.const 4160) (i32.const 11)) (i32.const 54)) ;; "hello.txt/e" NOTDIR
    (call $is (i32.const 7) (call $path_create_directory (i32.const 4) (i32.const 4176) (i32.const 1)) (i32.const 20)) ;; "." EXIST
    (call $is (i32.const 8) (call $path_create_directory (i32.const 4) (i32.const 4192) (i32.const 5)) (i32.const 44)) ;; "new/." NOENT
    (call $is (i32.const 9) (call $path_create_directory (i32.const 4) (i32.const 4208) (i32.const 255)) (i32.const 0)) ;; "nnnnnnnnnnnnnnnnnnnnnnnn"
    (call $is (i32.const 10) (call $path_create_directory (i32.const 4) (i32.const 4464) (i32.const 256)) (i32.const 37)) ;; "nnnnnnnnnnnnnnnnnnnnnnnn" NAMETOOLONG
    (call $is (i32.const 11) (call $path_create_directory (i32.const 4) (i32.const 4720) (i32.const 0)) (i32.const 44)) ;; "" NOENT
    (call $is (i32.const 12) (call $path_create_directory (i32.const 4) (i32.const 4720) (i32.const 4)) (i32.const 63)) ;; "/abs" PERM
    (call $is (i32.const 13) (call $path_create_directory (i32.const 4) (i32.const 4736) (i32.const 5)) (i32.const 63)) ;; "../up" PERM
    (call $is (i32.const 14) (call $path_create_directory (i32.const 4) (i32.const 4752) (i32.const 3)) (i32.const 28)) ;; "a\x00b" INVAL
    (call $is (i32.const 15) (call $path_create_directory (i32.const 4) (i32.const 4768) (i32.const 1)) (i32.const 25)) ;; "\xff" ILSEQ
    (call $is (i32.const 16) (call $path_create_directory (i32.const 4) (i32.const 0) (i32.const 4097)) (i32.const 37)) ;; NAMETOOLONG
    (call $is (i32.const 17) (call $path_create_directory (i32.const 4) (i32.const 65535) (i32.const 2)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 18) (call $path_create_directory (i32.const 99) (i32.const 4096) (i32.const 1)) (i32.const 8)) ;; "d" BADF
    (call $is (i32.const 19) (call $path_create_directory (i32.const 0) (i32.const 4096) (i32.const 1)) (i32.const 54)) ;; "d" NOTDIR
    (call $is (i32.const 20) (call $path_create_directory (i32.const 3) (i32.const 4096) (i32.const 1)) (i32.const 69)) ;; "d" ROFS
    (call $is (i32.const 21) (call $path_create_directory (i32.const 3) (i32.const 4784) (i32.const 5)) (i32.const 69)) ;; "lib/d" ROFS
    (call $is (i32.const 22) (call $path_create_directory (i32.const 3) (i32.const 4800) (i32.const 13)) (i32.const 0)) ;; "work/via-root"
    (global.get $failed)))
