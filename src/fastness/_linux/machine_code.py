"""
Lists of system calls that are made by a few instructions of machine code, before the interpreter runs again.

A process that was just forked has none of its memory to itself: the kernel copies each page that it writes to, and an
interpreter that only goes through a list writes to a hundred.  These instructions write to the stack alone.  They can
also make the fork itself, so that a child has made its calls before anything of Python runs in it.

A *row* is ten words of 64 bits: the number of a call, its six arguments, the answer that is due, an address where the
answer is put, or 0, and the answer of a call that had another one than was due.  In the place of a call a row may
*load* the int at the address that is its first argument, which is then its answer.  A *list* is rows one after another;
*lists* are pairs of addresses, of a list's first row and of what comes after its last, and after all pairs a zero.

Where there are no such instructions (:func:`prepare`), Python does the same: :func:`make` is either.
"""

from __future__ import annotations

import ctypes as C
import os

from fastness._linux import memory, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Words of a row, and what the last of them are.
ROW, DUE, PUT_AT, ANSWER = 10, 7, 8, 9
#: As the answer that is due: any but an error.
ANY = 1 << 63
#: As the number of a call: none is made, and an int is loaded.
LOAD = (1 << 64) - 1
#: Bytes of a row.
ROW_BYTES = 8 * ROW

#: For x86_64, in the words of its assembler: ``make`` at the beginning, and ``fork``.
LISTING = """
.intel_syntax noprefix
.text
make:                       # rdi: lists; returns the row that was answered otherwise, or where the zero is
    push rbx
    push rbp
    push r12
    mov r12, rdi
list:
    mov rbx, [r12]
    test rbx, rbx
    jz end
    mov rbp, [r12 + 8]
    add r12, 16
row:
    cmp rbx, rbp
    jae list
    call one
    mov rcx, [rbx + 56]
    cmp rax, rcx
    je good
    test rcx, rcx           # any answer will do where the highest bit is set
    jns bad
    cmp rax, -4095
    jae bad
good:
    mov rcx, [rbx + 64]
    test rcx, rcx
    jz next
    mov [rcx], eax
next:
    add rbx, 80
    jmp row
bad:
    mov [rbx + 72], rax
    mov r12, rbx
end:
    mov rax, r12
    pop r12
    pop rbp
    pop rbx
    ret
one:                        # rbx: a row; returns its answer
    mov rax, [rbx]
    mov rdi, [rbx + 8]
    test rax, rax
    js load
    mov rsi, [rbx + 16]
    mov rdx, [rbx + 24]
    mov r10, [rbx + 32]
    mov r8, [rbx + 40]
    mov r9, [rbx + 48]
    syscall
    ret
load:
    mov eax, [rdi]
    ret
fork:                       # rdi: the row that forks; rsi: lists for the child; rdx: lists for the parent
    push rbx
    push r12
    push r13
    mov rbx, rdi
    mov r12, rsi
    mov r13, rdx
    call one
    test rax, rax
    jz child
    js over
    mov rbx, rax
    mov rdi, r13
    call make
    mov rax, rbx
over:                       # returns the child's number, an error below zero, or in the child ~ of what make returns
    pop r13
    pop r12
    pop rbx
    ret
child:
    mov rdi, r12
    call make
    not rax
    jmp over
"""
_CODE = {
    "x86_64": bytes.fromhex(
        "535541544989fc498b1c244885db7441498b6c24084983c4104839eb73e9e836000000488b4b384839c8740d4885c979"
        "19483d01f0ffff7311488b4b404885c9740289014883c350ebcf488943484989dc4c89e0415c5d5bc3488b03488b7b08"
        "4885c07817488b7310488b53184c8b53204c8b43284c8b4b300f05c38b07c353415441554889fb4989f44989d5e8c7ff"
        "ffff4885c07416780e4889c34c89efe85cffffff4889d8415d415c5bc34c89e7e84bffffff48f7d0ebed"
    )
}
_FORK_AT = 0x7F
_PAGE = 4096

#: Makes the calls of lists, by address; returns the address of the row that was answered otherwise than was due, or of
#: the zero after the last list.
make: Callable[[int], int]
#: Forks by a row, for lists that the child makes and others that the parent makes: returns the child's number, an error
#: number below zero, or in the child the complement of what :func:`make` returns.  None where Python has to.
fork: Callable[[int, int, int], int] | None = None


def in_python(lists: int) -> int:
    """:func:`make`, without machine code.  The caller vouches for what is at the address."""
    call = syscalls.word_call()
    place = lists
    while True:
        # SAFETY: the caller's: lists end with a zero, and each is of whole rows.
        first, end = (C.c_uint64 * 2).from_address(place)
        if not first:
            return place
        place += 16
        for at in range(first, end, ROW_BYTES):
            # SAFETY: as above.
            row = (C.c_uint64 * ROW).from_address(at)
            # SAFETY: the int is the caller's to keep, and so is what a call's seven words point to.
            answer: int = C.c_uint32.from_address(row[1]).value if row[0] == LOAD else call(*row[:DUE])
            due = row[DUE]
            if answer < 0 or (due < ANY and answer != due):
                row[ANSWER] = -C.get_errno() if answer < 0 else answer
                return at
            if row[PUT_AT]:
                # SAFETY: the caller has said that an int can be put there.
                C.c_int.from_address(row[PUT_AT]).value = answer


make = in_python


def prepare() -> bool:
    """
    Have the instructions in this process, and in all that are forked from it; False where there will be none.

    They are for one kind of processor, and a system may forbid memory that can be executed and is of no file.  To be
    called before filters are installed that forbid it too.
    """
    global make, fork  # noqa: PLW0603  # one place for machine code in a process
    code = _CODE.get(syscalls.MACHINE)
    if fork is not None or code is None or os.sysconf("SC_PAGE_SIZE") != _PAGE:
        return fork is not None
    try:
        # SAFETY: without MAP_FIXED no existing mapping is touched.
        flags = memory.MAP_PRIVATE | memory.MAP_ANONYMOUS
        place = syscalls.raw("mmap", 0, _PAGE, memory.PROT_READ | memory.PROT_WRITE, flags, -1, 0)
        try:
            # SAFETY: the mapping is this function's, larger than the code, and not executable yet.
            C.memmove(place, code, len(code))
            memory.protect(place, _PAGE, memory.PROT_READ | memory.PROT_EXEC)
        except OSError:
            memory.unmap(place, _PAGE)
            raise
    except OSError:
        return False
    # SAFETY: these keep the interpreter's lock, so that nothing of it runs between a fork and the child's calls.  The
    # instructions keep what the calling convention says is kept, and no reference to anything of Python's.
    make = C.PYFUNCTYPE(C.c_long, C.c_size_t)(place)
    # SAFETY: as above.
    fork = C.PYFUNCTYPE(C.c_long, C.c_size_t, C.c_size_t, C.c_size_t)(place + _FORK_AT)
    return True
