;; fd_write
;; Streams and files; the quota is 1 MiB.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $fd_tell (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $fd_seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x80) "\00\01\00\00\03\00\00\00\03\01\00\00\04\00\00\00")
  (data (i32.const 0x90) "\ff\ff\00\00\02\00\00\00")
  (data (i32.const 0x98) "\10\01\00\00\08\00\00\00")
  (data (i32.const 0x100) "output\0a")
  (data (i32.const 0x1000) "new")
  (data (i32.const 0x1010) "hello.txt")
  (data (i32.const 0x1020) "gone")
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
    (call $is (i32.const 1) (call $fd_write (i32.const 1) (i32.const 128) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 2) (i32.load (i32.const 96)) (i32.const 7))
    (call $is (i32.const 3) (call $fd_write (i32.const 2) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 4) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 1) (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 5) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 6) (call $fd_tell (i32.load (i32.const 64)) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 104)) (i64.const 7)) (i32.const 1))
    (call $is (i32.const 8) (call $fd_seek (i32.load (i32.const 64)) (i64.const 1099511627776) (i32.const 0) (i32.const 104)) (i32.const 0))
    ;; a terabyte of hole
    (call $is (i32.const 9) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 51)) ;; NOSPC
    (call $is (i32.const 10) (call $fd_filestat_get (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 11) (i64.eq (i64.load (i32.const 32)) (i64.const 7)) (i32.const 1))
    (call $is (i32.const 12) (call $fd_seek (i32.load (i32.const 64)) (i64.const 9223372036854775807) (i32.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 13) (call $fd_write (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 22)) ;; FBIG
    (call $is (i32.const 14) (call $fd_write (i32.const 0) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 15) (call $fd_write (i32.const 4) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 16) (call $fd_write (i32.const 99) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 17) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 18) (call $fd_write (i32.load (i32.const 68)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 19) (call $fd_write (i32.load (i32.const 68)) (i32.const 128) (i32.const 0) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 20) (call $fd_write (i32.const 1) (i32.const 128) (i32.const 1025) (i32.const 96)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 21) (call $fd_write (i32.const 1) (i32.const 144) (i32.const 1) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 22) (call $fd_write (i32.const 1) (i32.const 128) (i32.const 1) (i32.const 65534)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 23) (call $fd_write (i32.const 1) (i32.const 65529) (i32.const 1) (i32.const 96)) (i32.const 21)) ;; FAULT
    ;; an unlinked file can be used until it is closed
    (call $is (i32.const 24) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4128) (i32.const 4) (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 72)) (i32.const 0)) ;; "gone"
    (call $is (i32.const 25) (call $path_unlink_file (i32.const 4) (i32.const 4128) (i32.const 4)) (i32.const 0)) ;; "gone"
    (call $is (i32.const 26) (call $fd_write (i32.load (i32.const 72)) (i32.const 128) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 27) (call $fd_seek (i32.load (i32.const 72)) (i64.const 0) (i32.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 28) (call $fd_read (i32.load (i32.const 72)) (i32.const 152) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 29) (i32.load (i32.const 96)) (i32.const 7))
    (call $is (i32.const 30) (call $fd_close (i32.load (i32.const 72))) (i32.const 0))
    (global.get $failed)))
