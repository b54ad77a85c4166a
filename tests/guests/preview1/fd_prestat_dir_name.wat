;; fd_prestat_dir_name
;; The guest's own name for it, never a host's.
(module
  (import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $fd_prestat_dir_name (param i32 i32 i32) (result i32)))
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
    (call $is (i32.const 1) (call $fd_prestat_dir_name (i32.const 4) (i32.const 0) (i32.const 5)) (i32.const 0))
    (call $is (i32.const 2) (i32.load (i32.const 0)) (i32.const 1919907631))
    (call $is (i32.const 3) (i32.load (i32.const 4)) (i32.const 107))
    ;; a longer buffer is fine
    (call $is (i32.const 4) (call $fd_prestat_dir_name (i32.const 3) (i32.const 0) (i32.const 9)) (i32.const 0))
    (call $is (i32.const 5) (call $fd_prestat_dir_name (i32.const 4) (i32.const 0) (i32.const 4)) (i32.const 37)) ;; NAMETOOLONG
    (call $is (i32.const 6) (call $fd_prestat_dir_name (i32.const 4) (i32.const 0) (i32.const 0)) (i32.const 37)) ;; NAMETOOLONG
    (call $is (i32.const 7) (call $fd_prestat_dir_name (i32.const 2) (i32.const 0) (i32.const 5)) (i32.const 8)) ;; BADF
    (call $is (i32.const 8) (call $fd_prestat_dir_name (i32.const 99) (i32.const 0) (i32.const 5)) (i32.const 8)) ;; BADF
    (call $is (i32.const 9) (call $fd_prestat_dir_name (i32.const 4) (i32.const 65532) (i32.const 5)) (i32.const 21)) ;; FAULT
    (global.get $failed)))
