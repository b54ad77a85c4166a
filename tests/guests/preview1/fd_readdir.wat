;; fd_readdir
;; Entries with cookies; a cut entry fills the buffer.
(module
  (import "wasi_snapshot_preview1" "fd_readdir" (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "new")
  (data (i32.const 0x1020) "full")
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
    (call $is (i32.const 1) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 1000) (i64.const 0) (i32.const 96)) (i32.const 0))
    ;; five entries
    (call $is (i32.const 2) (i32.load (i32.const 96)) (i32.const 141))
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 512)) (i64.const 1)) (i32.const 1))
    (call $is (i32.const 4) (i32.load (i32.const 528)) (i32.const 1))
    (call $is (i32.const 5) (i32.load8_u (i32.const 532)) (i32.const 3))
    (call $is (i32.const 6) (i32.load8_u (i32.const 536)) (i32.const 46))
    (call $is (i32.const 7) (i64.eq (i64.load (i32.const 537)) (i64.const 2)) (i32.const 1))
    (call $is (i32.const 8) (i32.load (i32.const 553)) (i32.const 2))
    ;; hello.txt
    (call $is (i32.const 9) (i32.load (i32.const 579)) (i32.const 9))
    (call $is (i32.const 10) (i32.load8_u (i32.const 583)) (i32.const 4))
    (call $is (i32.const 11) (i32.load (i32.const 587)) (i32.const 1819043176))
    (i64.store (i32.const 0x70) (i64.load (i32.const 563)))
    (call $is (i32.const 12) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 1000) (i64.const 2) (i32.const 96)) (i32.const 0))
    ;; after ".."
    (call $is (i32.const 13) (i32.load (i32.const 96)) (i32.const 90))
    ;; after hello.txt
    (call $is (i32.const 14) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 1000) (i64.load (i32.const 0x70)) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 15) (i32.load (i32.const 96)) (i32.const 57))
    ;; a cookie stays good when its entry goes and another comes
    (call $is (i32.const 16) (call $path_unlink_file (i32.const 4) (i32.const 4096) (i32.const 9)) (i32.const 0)) ;; "hello.txt"
    (call $is (i32.const 17) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 3) (i32.const 1) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 18) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 1000) (i64.load (i32.const 0x70)) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 19) (i32.load (i32.const 96)) (i32.const 84))
    (call $is (i32.const 20) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 30) (i64.const 0) (i32.const 96)) (i32.const 0))
    ;; cut, so there is more
    (call $is (i32.const 21) (i32.load (i32.const 96)) (i32.const 30))
    (call $is (i32.const 22) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 0) (i64.const 0) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 23) (i32.load (i32.const 96)) (i32.const 0))
    (call $is (i32.const 24) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 1000) (i64.const 0xffffffffffffffff) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 25) (i32.load (i32.const 96)) (i32.const 0))
    (call $is (i32.const 26) (call $fd_readdir (i32.const 4) (i32.const 65526) (i32.const 11) (i64.const 0) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 27) (call $fd_readdir (i32.const 4) (i32.const 0) (i32.const 0xffffffff) (i64.const 0) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 28) (call $fd_readdir (i32.const 4) (i32.const 512) (i32.const 100) (i64.const 0) (i32.const 65536)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 29) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 3) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "new"
    (call $is (i32.const 30) (call $fd_readdir (i32.load (i32.const 64)) (i32.const 512) (i32.const 100) (i64.const 0) (i32.const 96)) (i32.const 54)) ;; NOTDIR
    (call $is (i32.const 31) (call $fd_readdir (i32.const 0) (i32.const 512) (i32.const 100) (i64.const 0) (i32.const 96)) (i32.const 54)) ;; NOTDIR
    (call $is (i32.const 32) (call $fd_readdir (i32.const 99) (i32.const 512) (i32.const 100) (i64.const 0) (i32.const 96)) (i32.const 8)) ;; BADF
    (call $is (i32.const 33) (call $path_open (i32.const 4) (i32.const 0) (i32.const 4128) (i32.const 4) (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 64)) (i32.const 0)) ;; "full"
    (call $is (i32.const 34) (call $fd_readdir (i32.load (i32.const 64)) (i32.const 512) (i32.const 100) (i64.const 0) (i32.const 96)) (i32.const 76)) ;; NOTCAPABLE
    (global.get $failed)))
