;; proc_raise
;; There are no signals.
(module
  (import "wasi_snapshot_preview1" "proc_raise" (func $proc_raise (param i32) (result i32)))
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
    (call $is (i32.const 1) (call $proc_raise (i32.const 6)) (i32.const 52)) ;; NOSYS
    (global.get $failed)))
