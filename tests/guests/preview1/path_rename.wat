;; path_rename
;; Files over files, directories over empty directories.
(module
  (import "wasi_snapshot_preview1" "path_rename" (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "full")
  (data (i32.const 0x1010) "moved")
  (data (i32.const 0x1020) "moved/")
  (data (i32.const 0x1030) "full/")
  (data (i32.const 0x1040) "empty")
  (data (i32.const 0x1050) "hello.txt")
  (data (i32.const 0x1060) "full/sub")
  (data (i32.const 0x1070) "new/")
  (data (i32.const 0x1080) "hello.txt/")
  (data (i32.const 0x1090) "new")
  (data (i32.const 0x10a0) "nope")
  (data (i32.const 0x10b0) "nope/new")
  (data (i32.const 0x10c0) ".")
  (data (i32.const 0x10d0) "..")
  (data (i32.const 0x10e0) "../x")
  (data (i32.const 0x10f0) "/new")
  (data (i32.const 0x1100) "sub")
  (data (i32.const 0x1110) "full/inner.txt")
  (data (i32.const 0x1120) "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")
  (data (i32.const 0x1220) "lib/file.txt")
  (data (i32.const 0x1230) "stolen")
  (data (i32.const 0x1240) "lib/x")
  (data (i32.const 0x1250) "work")
  (data (i32.const 0x1260) "other")
  (data (i32.const 0x1270) "full2")
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
    (call $is (i32.const 1) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4112) (i32.const 5)) (i32.const 0)) ;; "full" -> "moved"
    (call $is (i32.const 2) (call $path_rename (i32.const 4) (i32.const 4128) (i32.const 6) (i32.const 4) (i32.const 4144) (i32.const 5)) (i32.const 0)) ;; "moved/" -> "full/"
    (call $is (i32.const 3) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4128) (i32.const 6)) (i32.const 0)) ;; "full" -> "moved/"
    (call $is (i32.const 4) (call $path_rename (i32.const 4) (i32.const 4112) (i32.const 5) (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 0)) ;; "moved" -> "full"
    (call $is (i32.const 5) (call $path_rename (i32.const 4) (i32.const 4160) (i32.const 5) (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 55)) ;; "empty" -> "full" NOTEMPTY
    ;; onto an empty directory
    (call $is (i32.const 6) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4160) (i32.const 5)) (i32.const 0)) ;; "full" -> "empty"
    (call $is (i32.const 7) (call $path_rename (i32.const 4) (i32.const 4160) (i32.const 5) (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 0)) ;; "empty" -> "full"
    (call $is (i32.const 8) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 31)) ;; "hello.txt" -> "full" ISDIR
    (call $is (i32.const 9) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4176) (i32.const 9)) (i32.const 54)) ;; "full" -> "hello.txt" NOTDIR
    ;; into itself
    (call $is (i32.const 10) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4192) (i32.const 8)) (i32.const 28)) ;; "full" -> "full/sub" INVAL
    ;; onto itself
    (call $is (i32.const 11) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4096) (i32.const 4)) (i32.const 0)) ;; "full" -> "full"
    (call $is (i32.const 12) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4176) (i32.const 9)) (i32.const 0)) ;; "hello.txt" -> "hello.txt"
    (call $is (i32.const 13) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4208) (i32.const 4)) (i32.const 54)) ;; "hello.txt" -> "new/" NOTDIR
    (call $is (i32.const 14) (call $path_rename (i32.const 4) (i32.const 4224) (i32.const 10) (i32.const 4) (i32.const 4240) (i32.const 3)) (i32.const 54)) ;; "hello.txt/" -> "new" NOTDIR
    (call $is (i32.const 15) (call $path_rename (i32.const 4) (i32.const 4256) (i32.const 4) (i32.const 4) (i32.const 4240) (i32.const 3)) (i32.const 44)) ;; "nope" -> "new" NOENT
    (call $is (i32.const 16) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4272) (i32.const 8)) (i32.const 44)) ;; "hello.txt" -> "nope/new" NOENT
    (call $is (i32.const 17) (call $path_rename (i32.const 4) (i32.const 4288) (i32.const 1) (i32.const 4) (i32.const 4240) (i32.const 3)) (i32.const 28)) ;; "." -> "new" INVAL
    (call $is (i32.const 18) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4288) (i32.const 1)) (i32.const 28)) ;; "full" -> "." INVAL
    (call $is (i32.const 19) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4304) (i32.const 2)) (i32.const 63)) ;; "full" -> ".." PERM
    (call $is (i32.const 20) (call $path_rename (i32.const 4) (i32.const 4320) (i32.const 4) (i32.const 4) (i32.const 4240) (i32.const 3)) (i32.const 63)) ;; "../x" -> "new" PERM
    (call $is (i32.const 21) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4336) (i32.const 4)) (i32.const 63)) ;; "hello.txt" -> "/new" PERM
    ;; a descriptor below the source does not help
    (call $is (i32.const 22) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 4) (i32.const 2) (i64.const 1073741759) (i64.const 1073741823) (i32.const 0) (i32.const 72)) (i32.const 0)) ;; "full"
    (call $is (i32.const 23) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.load (i32.const 72)) (i32.const 4352) (i32.const 3)) (i32.const 28)) ;; "full" -> "sub" INVAL
    ;; replaces a file
    (call $is (i32.const 24) (call $path_rename (i32.const 4) (i32.const 4176) (i32.const 9) (i32.const 4) (i32.const 4368) (i32.const 14)) (i32.const 0)) ;; "hello.txt" -> "full/inner.txt"
    (call $is (i32.const 25) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4368) (i32.const 14) (i32.const 0)) (i32.const 0)) ;; "full/inner.txt"
    (call $is (i32.const 26) (i64.eq (i64.load (i32.const 32)) (i64.const 11)) (i32.const 1))
    (call $is (i32.const 27) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4176) (i32.const 9) (i32.const 0)) (i32.const 44)) ;; "hello.txt" NOENT
    (call $is (i32.const 28) (call $path_rename (i32.const 4) (i32.const 4368) (i32.const 14) (i32.const 4) (i32.const 4384) (i32.const 256)) (i32.const 37)) ;; "full/inner.txt" -> "nnnnnnnnnnnnnnnnnnnnnnnn" NAMETOOLONG
    (call $is (i32.const 29) (call $path_rename (i32.const 3) (i32.const 4640) (i32.const 12) (i32.const 4) (i32.const 4656) (i32.const 6)) (i32.const 69)) ;; "lib/file.txt" -> "stolen" ROFS
    (call $is (i32.const 30) (call $path_rename (i32.const 4) (i32.const 4368) (i32.const 14) (i32.const 3) (i32.const 4672) (i32.const 5)) (i32.const 69)) ;; "full/inner.txt" -> "lib/x" ROFS
    (call $is (i32.const 31) (call $path_rename (i32.const 3) (i32.const 4688) (i32.const 4) (i32.const 3) (i32.const 4704) (i32.const 5)) (i32.const 69)) ;; "work" -> "other" ROFS
    (call $is (i32.const 32) (call $path_rename (i32.const 99) (i32.const 4096) (i32.const 4) (i32.const 4) (i32.const 4720) (i32.const 5)) (i32.const 8)) ;; "full" -> "full2" BADF
    (call $is (i32.const 33) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 99) (i32.const 4720) (i32.const 5)) (i32.const 8)) ;; "full" -> "full2" BADF
    (call $is (i32.const 34) (call $path_rename (i32.const 4) (i32.const 4096) (i32.const 4) (i32.const 1) (i32.const 4720) (i32.const 5)) (i32.const 54)) ;; "full" -> "full2" NOTDIR
    (global.get $failed)))
