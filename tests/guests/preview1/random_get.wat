;; random_get
;; The run's generator gives 0, 1, 2, ...; a request longer than one chunk is filled whole.
(module
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
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
    (call $is (i32.const 1) (call $random_get (i32.const 0) (i32.const 8)) (i32.const 0))
    (call $is (i32.const 2) (i32.load (i32.const 0)) (i32.const 50462976))
    (call $is (i32.const 3) (i32.load (i32.const 4)) (i32.const 117835012))
    ;; not one byte more
    (call $is (i32.const 4) (i32.load8_u (i32.const 8)) (i32.const 0))
    ;; nothing at the very end is allowed
    (call $is (i32.const 5) (call $random_get (i32.const 65536) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 6) (call $random_get (i32.const 65532) (i32.const 8)) (i32.const 21)) ;; FAULT
    ;; nothing was written
    (call $is (i32.const 7) (i32.load8_u (i32.const 65535)) (i32.const 0))
    ;; four gigabytes are refused, not made
    (call $is (i32.const 8) (call $random_get (i32.const 0) (i32.const 0xffffffff)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
