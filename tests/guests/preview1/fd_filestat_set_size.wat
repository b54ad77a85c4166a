;; fd_filestat_set_size
;; Cuts and extends; the quota is 1 MiB.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_set_size" (func $fd_filestat_set_size (param i32 i64) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x80) "\00\01\00\00\10\00\00\00")
  (data (i32.const 0x100) "................")
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
    (call $is (i32.const 1) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 2) (call $fd_filestat_set_size (i32.load (i32.const 64)) (i64.const 4)) (i32.const 0))
    (call $is (i32.const 3) (call $fd_filestat_get (i32.load (i32.const 64)) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 4) (i64.eq (i64.load (i32.const 32)) (i64.const 4)) (i32.const 1))
    ;; modified now
    (call $is (i32.const 5) (i64.eq (i64.load (i32.const 48)) (i64.const 1700000000000000000)) (i32.const 1))
    (call $is (i32.const 6) (i64.eq (i64.load (i32.const 40)) (i64.const 1600000000000000000)) (i32.const 1))
    (call $is (i32.const 7) (call $fd_filestat_set_size (i32.load (i32.const 64)) (i64.const 8)) (i32.const 0))
    (call $is (i32.const 8) (call $fd_read (i32.load (i32.const 64)) (i32.const 128) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 9) (i32.load (i32.const 96)) (i32.const 8))
    (call $is (i32.const 10) (i32.load (i32.const 256)) (i32.const 1819043176))
    (call $is (i32.const 11) (i32.load (i32.const 260)) (i32.const 0))
    (call $is (i32.const 12) (call $fd_filestat_set_size (i32.load (i32.const 64)) (i64.const 2097152)) (i32.const 51)) ;; NOSPC
    (call $is (i32.const 13) (call $fd_filestat_set_size (i32.load (i32.const 64)) (i64.const 4611686018427387904)) (i32.const 51)) ;; NOSPC
    (call $is (i32.const 14) (call $fd_filestat_set_size (i32.load (i32.const 64)) (i64.const 0x8000000000000000)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 15) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 68)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 16) (call $fd_filestat_set_size (i32.load (i32.const 68)) (i64.const 0)) (i32.const 76)) ;; NOTCAPABLE
    (call $is (i32.const 17) (call $fd_filestat_set_size (i32.const 4) (i64.const 0)) (i32.const 8)) ;; BADF
    (call $is (i32.const 18) (call $fd_filestat_set_size (i32.const 1) (i64.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 19) (call $fd_filestat_set_size (i32.const 99) (i64.const 0)) (i32.const 8)) ;; BADF
    (global.get $failed)))
