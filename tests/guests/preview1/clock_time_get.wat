;; clock_time_get
;; The run has a fixed time: 1 700 000 000 s since the epoch; the monotonic clock starts at one second.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
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
    (call $is (i32.const 1) (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 2) (i64.eq (i64.load (i32.const 0)) (i64.const 1700000000000000000)) (i32.const 1))
    (call $is (i32.const 3) (call $clock_time_get (i32.const 1) (i64.const 1000) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 4) (i64.eq (i64.load (i32.const 0)) (i64.const 1000000000)) (i32.const 1))
    (call $is (i32.const 5) (call $clock_time_get (i32.const 2) (i64.const 0) (i32.const 0)) (i32.const 0))
    ;; processor time stands still too
    (call $is (i32.const 6) (i64.eq (i64.load (i32.const 0)) (i64.const 0)) (i32.const 1))
    (call $is (i32.const 7) (call $clock_time_get (i32.const 3) (i64.const 0) (i32.const 0)) (i32.const 0))
    (call $is (i32.const 8) (call $clock_time_get (i32.const 4) (i64.const 0) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 9) (call $clock_time_get (i32.const 0xffffffff) (i64.const 0) (i32.const 0)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 10) (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 65532)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
