;; path_filestat_get
;; Status by name.
(module
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "full")
  (data (i32.const 0x1020) "full/../hello.txt")
  (data (i32.const 0x1040) ".")
  (data (i32.const 0x1050) "full/")
  (data (i32.const 0x1060) "hello.txt/")
  (data (i32.const 0x1070) "hello.txt/.")
  (data (i32.const 0x1080) "hello.txt/..")
  (data (i32.const 0x1090) "nope")
  (data (i32.const 0x10a0) "..")
  (data (i32.const 0x10b0) "full/../..")
  (data (i32.const 0x10c0) "/etc/passwd")
  (data (i32.const 0x10d0) "etc/passwd")
  (data (i32.const 0x10e0) "lib/file.txt")
  (data (i32.const 0x10f0) "lib/nope")
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
    (call $is (i32.const 1) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (i32.load8_u (i32.const 16)) (i32.const 4))
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 32)) (i64.const 11)) (i32.const 1))
    (call $is (i32.const 4) (call $path_filestat_get (i32.const 4) (i32.const 1) (i32.const 4112) (i32.const 4) (i32.const 0)) (i32.const 0)) ;; "full"
    (call $is (i32.const 5) (i32.load8_u (i32.const 16)) (i32.const 3))
    (call $is (i32.const 6) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4128) (i32.const 17) (i32.const 0)) (i32.const 0)) ;; "full/../hello.txt"
    (call $is (i32.const 7) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4160) (i32.const 1) (i32.const 0)) (i32.const 0)) ;; "."
    (call $is (i32.const 8) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4176) (i32.const 5) (i32.const 0)) (i32.const 0)) ;; "full/"
    (call $is (i32.const 9) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4192) (i32.const 10) (i32.const 0)) (i32.const 54)) ;; "hello.txt/" NOTDIR
    (call $is (i32.const 10) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4208) (i32.const 11) (i32.const 0)) (i32.const 54)) ;; "hello.txt/." NOTDIR
    (call $is (i32.const 11) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4224) (i32.const 12) (i32.const 0)) (i32.const 54)) ;; "hello.txt/.." NOTDIR
    (call $is (i32.const 12) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4240) (i32.const 4) (i32.const 0)) (i32.const 44)) ;; "nope" NOENT
    (call $is (i32.const 13) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4256) (i32.const 2) (i32.const 0)) (i32.const 63)) ;; ".." PERM
    (call $is (i32.const 14) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4272) (i32.const 10) (i32.const 0)) (i32.const 63)) ;; "full/../.." PERM
    (call $is (i32.const 15) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4288) (i32.const 11) (i32.const 0)) (i32.const 63)) ;; "/etc/passwd" PERM
    (call $is (i32.const 16) (call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 4304) (i32.const 10) (i32.const 0)) (i32.const 44)) ;; "etc/passwd" NOENT
    (call $is (i32.const 17) (call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 4320) (i32.const 12) (i32.const 0)) (i32.const 0)) ;; "lib/file.txt"
    (call $is (i32.const 18) (i64.eq (i64.load (i32.const 32)) (i64.const 7)) (i32.const 1))
    (call $is (i32.const 19) (call $path_filestat_get (i32.const 3) (i32.const 0) (i32.const 4336) (i32.const 8) (i32.const 0)) (i32.const 44)) ;; "lib/nope" NOENT
    (call $is (i32.const 20) (call $path_filestat_get (i32.const 4) (i32.const 2) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 21) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 65473)) (i32.const 21)) ;; "hello.txt" FAULT
    (call $is (i32.const 22) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 0xffffffff) (i32.const 2) (i32.const 0)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 23) (call $path_filestat_get (i32.const 1) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 54)) ;; "hello.txt" NOTDIR
    (call $is (i32.const 24) (call $path_filestat_get (i32.const 99) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 8)) ;; "hello.txt" BADF
    (global.get $failed)))
