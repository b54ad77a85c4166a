;; path_link
;; Hard links are refused and recorded.
(module
  (import "wasi_snapshot_preview1" "path_link" (func $path_link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get" (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x1000) "hello.txt")
  (data (i32.const 0x1010) "again")
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
    (call $is (i32.const 1) (call $path_link (i32.const 4) (i32.const 0) (i32.const 4096) (i32.const 9) (i32.const 4) (i32.const 4112) (i32.const 5)) (i32.const 58)) ;; "hello.txt" -> "again" NOTSUP
    (call $is (i32.const 2) (call $path_filestat_get (i32.const 4) (i32.const 0) (i32.const 4112) (i32.const 5) (i32.const 0)) (i32.const 44)) ;; "again" NOENT
    ;; whatever the arguments
    (call $is (i32.const 3) (call $path_link (i32.const 99) (i32.const 0) (i32.const 0xffffffff) (i32.const 4) (i32.const 99) (i32.const 0xffffffff) (i32.const 4)) (i32.const 58)) ;; NOTSUP
    (global.get $failed)))
