;; The guest of the wasm tier's self-test.  Its second argument's first letter says what to try; its exit status says
;; what came of it.  `fastness/backends/wasm_proofs.py` holds the same module assembled; a test compares the two.
(module
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_send" (func $sock_send (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func $length (param $text i32) (result i32)
    (local $end i32)
    (local.set $end (local.get $text))
    (loop $next
      (if (i32.load8_u (local.get $end))
        (then (local.set $end (i32.add (local.get $end) (i32.const 1))) (br $next))))
    (i32.sub (local.get $end) (local.get $text)))
  (func (export "_start")
    (local $what i32)
    (drop (call $args_get (i32.const 1024) (i32.const 4096)))
    (local.set $what (i32.load8_u (i32.load (i32.const 1028))))
    ;; l: a loop without end
    (if (i32.eq (local.get $what) (i32.const 108)) (then (loop $ever (br $ever))))
    ;; m: 4095 more pages; exit 1 where that was possible
    (if (i32.eq (local.get $what) (i32.const 109))
      (then (call $proc_exit (i32.ne (memory.grow (i32.const 4095)) (i32.const -1)))))
    ;; o: output without end
    (if (i32.eq (local.get $what) (i32.const 111))
      (then
        (i32.store (i32.const 0) (i32.const 8192))
        (i32.store (i32.const 4) (i32.const 1024))
        (loop $more
          (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
          (br $more))))
    ;; t: a trap
    (if (i32.eq (local.get $what) (i32.const 116)) (then unreachable))
    ;; e: how many environment variables there are
    (if (i32.eq (local.get $what) (i32.const 101))
      (then
        (drop (call $environ_sizes_get (i32.const 0) (i32.const 4)))
        (call $proc_exit (i32.load (i32.const 0)))))
    ;; f: open the file named by the third argument through the first preopen; the errno
    (if (i32.eq (local.get $what) (i32.const 102))
      (then
        (call $proc_exit
          (call $path_open (i32.const 3) (i32.const 0) (i32.load (i32.const 1032))
            (call $length (i32.load (i32.const 1032))) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)
            (i32.const 16)))))
    ;; n: send on the first preopen as if it were a socket; the errno
    (if (i32.eq (local.get $what) (i32.const 110))
      (then
        (i32.store (i32.const 0) (i32.const 8192))
        (i32.store (i32.const 4) (i32.const 1))
        (call $proc_exit
          (call $sock_send (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 8)))))
    (call $proc_exit (i32.const 99))))
