;; path_open
;; Every combination of flags that has an errno of its own.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "new")
  (data (i32.const 0x1020) "fresh")
  (data (i32.const 0x1030) "full")
  (data (i32.const 0x1040) "nope")
  (data (i32.const 0x1050) "nope/x")
  (data (i32.const 0x1060) "hello.txt/x")
  (data (i32.const 0x1070) "hello.txt/")
  (data (i32.const 0x1080) "hello.txt///")
  (data (i32.const 0x1090) "new2/")
  (data (i32.const 0x10a0) "full/")
  (data (i32.const 0x10b0) "x")
  (data (i32.const 0x10c0) "full/.//../full/./inner.txt")
  (data (i32.const 0x10e0) "/hello.txt")
  (data (i32.const 0x10f0) "../work/hello.txt")
  (data (i32.const 0x1110) "full/../../work")
  (data (i32.const 0x1120) "hello.txt\00")
  (data (i32.const 0x1130) "h\c3(")
  (data (i32.const 0x1140) "\ed\a0\80")
  (data (i32.const 0x1150) "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")
  (data (i32.const 0x1250) ".")
  (data (i32.const 0x1260) "lib/file.txt")
  (data (i32.const 0x1270) "lib/x")
  (data (i32.const 0x1280) "work/hello.txt")
  (data (i32.const 0x1290) "made")
  (data (i32.const 0x12a0) "inner.txt")
  (data (i32.const 0x12b0) "y")
  (data (i32.const 0x12c0) "../hello.txt")
  (data (i32.const 0x12d0) "never")
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
    (local $n i32) (local $e i32)
    ;; the lowest free number
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (i32.load (i32.const 64)) (i32.const 5))
    (call $is (i32.const 3) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 3) (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 4) (i32.load (i32.const 64)) (i32.const 6))
    (call $is (i32.const 5) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 3) (i32.const 5) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 20)) ;; "new" EXIST
    (call $is (i32.const 6) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 3) (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 7) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4128) (i32.const 5) (i32.const 5) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "fresh"
    (call $is (i32.const 8) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 5) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 20)) ;; "full" EXIST
    (call $is (i32.const 9) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4160) (i32.const 4) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 44)) ;; "nope" NOENT
    (call $is (i32.const 10) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4176) (i32.const 6) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 44)) ;; "nope/x" NOENT
    (call $is (i32.const 11) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4192) (i32.const 11) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "hello.txt/x" NOTDIR
    (call $is (i32.const 12) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 2) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "hello.txt" NOTDIR
    (call $is (i32.const 13) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4208) (i32.const 10) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "hello.txt/" NOTDIR
    (call $is (i32.const 14) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4224) (i32.const 12) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "hello.txt///" NOTDIR
    (call $is (i32.const 15) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4240) (i32.const 5) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 31)) ;; "new2/" ISDIR
    (call $is (i32.const 16) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 2) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "full"
    (call $is (i32.const 17) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4256) (i32.const 5) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "full/"
    ;; a directory can not be opened for writing
    (call $is (i32.const 18) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 0) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 31)) ;; "full" ISDIR
    (call $is (i32.const 19) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 2) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 31)) ;; "full" ISDIR
    (call $is (i32.const 20) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 31)) ;; "full" ISDIR
    (call $is (i32.const 21) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 8) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 31)) ;; "full" ISDIR
    (call $is (i32.const 22) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4272) (i32.const 1) (i32.const 3) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "x" INVAL
    (call $is (i32.const 23) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 10) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "full" INVAL
    (call $is (i32.const 24) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 6) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "full" INVAL
    (call $is (i32.const 25) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4288) (i32.const 27) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "full/.//../full/./inner."
    (call $is (i32.const 26) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4320) (i32.const 10) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 63)) ;; "/hello.txt" PERM
    (call $is (i32.const 27) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4336) (i32.const 17) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 63)) ;; "../work/hello.txt" PERM
    (call $is (i32.const 28) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4368) (i32.const 15) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 63)) ;; "full/../../work" PERM
    (call $is (i32.const 29) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4384) (i32.const 10) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "hello.txt\x00" INVAL
    (call $is (i32.const 30) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4400) (i32.const 3) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 25)) ;; "h\xc3(" ILSEQ
    ;; a lone surrogate
    (call $is (i32.const 31) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4416) (i32.const 3) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 25)) ;; "\xed\xa0\x80" ILSEQ
    (call $is (i32.const 32) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4432) (i32.const 0) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 44)) ;; "" NOENT
    (call $is (i32.const 33) (call $path_open (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 4097) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 37)) ;; NAMETOOLONG
    (call $is (i32.const 34) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4432) (i32.const 256) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 37)) ;; "nnnnnnnnnnnnnnnnnnnnnnnn" NAMETOOLONG
    (call $is (i32.const 35) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 16) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 36) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 32) (i32.const 64)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 37) (call $path_open (i32.const 4) (i32.const 2) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 38) (call $path_open (i32.const 99) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 8)) ;; "hello.txt" BADF
    (call $is (i32.const 39) (call $path_open (i32.const 0) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "hello.txt" NOTDIR
    (call $is (i32.const 40) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 41) (call $path_open (i32.load (i32.const 68)) (i32.const 0) (i32.const 4272) (i32.const 1) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 54)) ;; "x" NOTDIR
    ;; flags of a directory mean nothing but are kept
    (call $is (i32.const 42) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4688) (i32.const 1) (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 4) (i32.const 64)) (i32.const 0)) ;; "."
    (call $is (i32.const 43) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 8) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 44) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 45) (i64.eq (i64.load (i32.const 32)) (i64.const 0)) (i32.const 1))
    (call $is (i32.const 46) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4704) (i32.const 12) (i32.const 0) (i64.const 1073741759) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "lib/file.txt"
    (call $is (i32.const 47) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4704) (i32.const 12) (i32.const 0) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 69)) ;; "lib/file.txt" ROFS
    (call $is (i32.const 48) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4704) (i32.const 12) (i32.const 8) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 69)) ;; "lib/file.txt" ROFS
    (call $is (i32.const 49) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4720) (i32.const 5) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 69)) ;; "lib/x" ROFS
    (call $is (i32.const 50) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4704) (i32.const 12) (i32.const 1) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "lib/file.txt"
    (call $is (i32.const 51) (call $path_open (i32.const 3) (i32.const 0) (i32.const 4736) (i32.const 14) (i32.const 0) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "work/hello.txt"
    ;; no descriptor can be told, so nothing is made
    (call $is (i32.const 52) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4752) (i32.const 4) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 65533)) (i32.const 21)) ;; "made" FAULT
    (call $is (i32.const 53) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4752) (i32.const 4) (i32.const 0)) (i32.const 44)) ;; "made" NOENT
    ;; rights of what is opened below are limited by its directory
    (call $is (i32.const 54) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4144) (i32.const 4) (i32.const 2) (i64.const 9216) (i64.const 2) (i32.const 0) (i32.const 72)) (i32.const 0)) ;; "full"
    (call $is (i32.const 55) (call $path_open (i32.load (i32.const 72)) (i32.const 0) (i32.const 4768) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "inner.txt"
    (call $is (i32.const 56) (call $path_open (i32.load (i32.const 72)) (i32.const 0) (i32.const 4768) (i32.const 9) (i32.const 0) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 76)) ;; "inner.txt" NOTCAPABLE
    (call $is (i32.const 57) (call $path_open (i32.load (i32.const 72)) (i32.const 0) (i32.const 4768) (i32.const 9) (i32.const 8) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 76)) ;; "inner.txt" NOTCAPABLE
    (call $is (i32.const 58) (call $path_open (i32.load (i32.const 72)) (i32.const 0) (i32.const 4784) (i32.const 1) (i32.const 1) (i64.const 0) (i64.const 2) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "y"
    ;; not above the descriptor
    (call $is (i32.const 59) (call $path_open (i32.load (i32.const 72)) (i32.const 0) (i32.const 4800) (i32.const 12) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 63)) ;; "../hello.txt" PERM
    ;; bits that preview 1 does not know are ignored
    (call $is (i32.const 60) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 0xffffffffffffffff) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    ;; until the table is full: 32 descriptors
    (local.set $n (i32.const 0))
    (loop $more
      (local.set $e (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.and (i32.eqz (local.get $e)) (i32.lt_u (local.get $n) (i32.const 100)))))
    (call $is (i32.const 61) (local.get $e) (i32.const 33))
    (call $is (i32.const 62) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4816) (i32.const 5) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 33)) ;; "never" MFILE
    (call $is (i32.const 63) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4816) (i32.const 5) (i32.const 0)) (i32.const 44)) ;; "never" NOENT
    (global.get $failed)))
