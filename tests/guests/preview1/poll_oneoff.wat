;; poll_oneoff
;; Time is fixed, so a sleep moves the clocks and does not wait.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0x200) "\07\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\f2\05*\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x230) "\08\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\945w\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x260) "\09\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x290) "\0a\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x2c0) "\0b\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00c\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x2f0) "\0c\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00")
  (data (i32.const 0x320) "\0d\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x350) "\0e\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x380) "\0f\00\00\00\00\00\00\00\07\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 0x3b0) "\10\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\e8\a0~\15\9d\97\17\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00")
  (data (i32.const 0x3e0) "\11\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00")
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
    ;; two sleeps: the shorter one ends it
    (call $is (i32.const 1) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 2) (i32.load (i32.const 96)) (i32.const 1))
    (call $is (i32.const 3) (i64.eq (i64.load (i32.const 2048)) (i64.const 8)) (i32.const 1))
    (call $is (i32.const 4) (i32.load (i32.const 2056)) (i32.const 0))
    (call $is (i32.const 5) (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 6) (i64.eq (i64.load (i32.const 104)) (i64.const 3000000000)) (i32.const 1))
    (call $is (i32.const 7) (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 8) (i64.eq (i64.load (i32.const 104)) (i64.const 1700000002000000000)) (i32.const 1))
    ;; streams are ready at once
    (call $is (i32.const 9) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 4) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 10) (i32.load (i32.const 96)) (i32.const 2))
    (call $is (i32.const 11) (i64.eq (i64.load (i32.const 2048)) (i64.const 9)) (i32.const 1))
    (call $is (i32.const 12) (i32.load (i32.const 2056)) (i32.const 65536))
    ;; bytes to read
    (call $is (i32.const 13) (i64.eq (i64.load (i32.const 2064)) (i64.const 11)) (i32.const 1))
    (call $is (i32.const 14) (i64.eq (i64.load (i32.const 2080)) (i64.const 10)) (i32.const 1))
    (call $is (i32.const 15) (i32.load (i32.const 2088)) (i32.const 131072))
    ;; a closed descriptor is an event; a time that is past too
    (call $is (i32.const 16) (call $poll_oneoff (i32.const 704) (i32.const 2048) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 17) (i32.load (i32.const 96)) (i32.const 2))
    (call $is (i32.const 18) (i64.eq (i64.load (i32.const 2048)) (i64.const 11)) (i32.const 1))
    (call $is (i32.const 19) (i32.load (i32.const 2056)) (i32.const 65544))
    (call $is (i32.const 20) (i64.eq (i64.load (i32.const 2080)) (i64.const 12)) (i32.const 1))
    (call $is (i32.const 21) (i32.load (i32.const 2088)) (i32.const 0))
    (call $is (i32.const 22) (call $poll_oneoff (i32.const 800) (i32.const 2048) (i32.const 2) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 23) (i32.load (i32.const 96)) (i32.const 2))
    ;; a directory
    (call $is (i32.const 24) (i32.load (i32.const 2056)) (i32.const 131148))
    ;; processor time
    (call $is (i32.const 25) (i32.load (i32.const 2088)) (i32.const 28))
    ;; no such event
    (call $is (i32.const 26) (call $poll_oneoff (i32.const 896) (i32.const 2048) (i32.const 1) (i32.const 96)) (i32.const 28)) ;; INVAL
    ;; until a time of day
    (call $is (i32.const 27) (call $poll_oneoff (i32.const 944) (i32.const 2048) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 28) (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 104)) (i32.const 0))
    (call $is (i32.const 29) (i64.eq (i64.load (i32.const 104)) (i64.const 1700000100000000000)) (i32.const 1))
    (call $is (i32.const 30) (call $poll_oneoff (i32.const 992) (i32.const 2048) (i32.const 1) (i32.const 96)) (i32.const 0))
    (call $is (i32.const 31) (i32.load (i32.const 2056)) (i32.const 28))
    (call $is (i32.const 32) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 0) (i32.const 96)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 33) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 4097) (i32.const 96)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 34) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 0xffffffff) (i32.const 96)) (i32.const 28)) ;; INVAL
    (call $is (i32.const 35) (call $poll_oneoff (i32.const 512) (i32.const 65505) (i32.const 1) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 36) (call $poll_oneoff (i32.const 65489) (i32.const 2048) (i32.const 1) (i32.const 96)) (i32.const 21)) ;; FAULT
    (call $is (i32.const 37) (call $poll_oneoff (i32.const 512) (i32.const 2048) (i32.const 1) (i32.const 65536)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
