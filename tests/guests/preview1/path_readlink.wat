;; path_readlink
;; Nothing that exists is a link.
(module
  (import "wasi_snapshot_preview1" "path_readlink" (func $path_readlink (param i32 i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "full")
  (data (i32.const 0x1020) "nope")
  (data (i32.const 0x1030) "../x")
  (data (i32.const 0x1040) "x")
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
    (call $is (i32.const 1) (call $path_readlink (i32.const 4) (i32.const 4096) (i32.const 9) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 28)) ;; "hello.txt" INVAL
    (call $is (i32.const 2) (call $path_readlink (i32.const 4) (i32.const 4112) (i32.const 4) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 28)) ;; "full" INVAL
    (call $is (i32.const 3) (call $path_readlink (i32.const 4) (i32.const 4128) (i32.const 4) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 44)) ;; "nope" NOENT
    (call $is (i32.const 4) (call $path_readlink (i32.const 4) (i32.const 4144) (i32.const 4) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 63)) ;; "../x" PERM
    (call $is (i32.const 5) (call $path_readlink (i32.const 99) (i32.const 4160) (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 8)) ;; "x" BADF
    (call $is (i32.const 6) (call $path_readlink (i32.const 2) (i32.const 4160) (i32.const 1) (i32.const 0) (i32.const 16) (i32.const 96)) (i32.const 54)) ;; "x" NOTDIR
    (global.get $failed)))
