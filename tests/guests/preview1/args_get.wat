;; args_get
;; Pointers and NUL-terminated strings.
(module
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (memory (export "memory") 1)
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
    (call $is (i32.const 1) (call $args_get (i32.const 0) (i32.const 64)) (i32.const 0))
    (call $is (i32.const 2) (i32.load (i32.const 0)) (i32.const 64))
    (call $is (i32.const 3) (i32.load (i32.const 4)) (i32.const 69))
    (call $is (i32.const 4) (i32.load (i32.const 8)) (i32.const 73))
    (call $is (i32.const 5) (i32.load (i32.const 64)) (i32.const 1735357040))
    (call $is (i32.const 6) (i32.load8_u (i32.const 68)) (i32.const 0))
    (call $is (i32.const 7) (i32.load (i32.const 69)) (i32.const 6647407))
    (call $is (i32.const 8) (i32.load8_u (i32.const 73)) (i32.const 0))
    ;; three pointers do not fit in the last eight bytes
    (call $is (i32.const 9) (call $args_get (i32.const 65528) (i32.const 64)) (i32.const 21)) ;; FAULT
    ;; nor do ten bytes of text in the last nine
    (call $is (i32.const 10) (call $args_get (i32.const 0) (i32.const 65527)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
