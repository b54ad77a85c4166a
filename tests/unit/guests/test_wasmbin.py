"""Reading and rewriting modules: nothing malformed gets through, and a rewritten module behaves as it should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._wasi import binding, census, cut, wasmbin
from fastness._wasi.wasmbin import InvalidModule

_TEXT = """
(module
  (type $unary (func (param i32) (result i32)))
  (type $action (func (param i32)))
  (import "host" "note" (func $note (param i32)))
  (memory (export "memory") 1)
  (global $sp (mut i32) (i32.const 1024))
  (table 6 6 funcref)
  (elem (i32.const 1) $double $gone $dtor $last)
  (func $double (type $unary) local.get 0 i32.const 2 i32.mul)
  (func $gone (type $unary) local.get 0 i32.const 3 i32.mul)
  (func $dtor (type $action) local.get 0 call $note)
  (func $filler (param f64 f32) (result i64) f64.const 1.5 drop f32.const 2.5 drop i64.const -1)
  (func $last (type $unary)
    (block (block (block (br_table 0 1 2 (local.get 0)))))
    (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 7)) (else (call $double (local.get 0)))))
  (func (export "run") (param i32 i32) (result i32)
    (memory.fill (i32.const 0) (i32.const 1) (i32.const 4))
    (call_indirect (type $unary) (local.get 0) (local.get 1)))
  (func (export "act") (call_indirect (type $action) (i32.const 1) (i32.const 3)))
  (func (export "direct") (param i32) (result i32) (call $gone (call $last (local.get 0)))))
"""


@pytest.fixture(scope="module")
def engine():
    lib = binding.load(binding.find_library())
    return binding.Engine(lib, binding.EngineConfig())


@pytest.fixture(scope="module")
def wasm(engine):
    return binding.wat2wasm(engine.lib, _TEXT)


def _instance(engine, wasm, tmp_path):
    path = tmp_path / "module"
    path.write_bytes(binding.compile_module(engine, wasm))
    linker = binding.Linker(engine)
    notes = []
    linker.define(b"host", b"note", "i", "", lambda env, caller, args, count: notes.append(args[0]))
    module = binding.Module.deserialize_file(engine, str(path))
    return binding.Instance(engine, linker.instantiate_pre(module), 1 << 20), notes, linker


def _drop(wasm):
    numbers = {name: index - 1 for index, name in wasmbin.function_names(wasm).items()}
    return cut.drop_functions(wasm, {numbers["gone"], numbers["filler"]}, {numbers["dtor"]})


def test_dropping_functions_keeps_the_rest_and_traps_on_the_dropped(engine, wasm, tmp_path):
    """Kept functions answer as before under the same table slots; dropped ones trap; dropped destructors return."""
    whole, notes, _keep = _instance(engine, wasm, tmp_path)
    assert (whole.call(b"run", 5, 1), whole.call(b"run", 5, 2), whole.call(b"run", 0, 4)) == (10, 15, 7)
    whole.call(b"act")
    assert notes == [1]
    small, notes, _keep2 = _instance(engine, _drop(wasm), tmp_path)
    assert (small.call(b"run", 5, 1), small.call(b"run", 0, 4), small.call(b"run", 4, 4)) == (10, 7, 8)
    small.call(b"act")
    assert notes == []
    for call in ((b"run", 5, 2), (b"direct", 1)):
        with pytest.raises(binding.Trap) as caught:
            small.call(*call)
        assert caught.value.code == "unreachable"


def test_dropping_keeps_types_memory_and_table(wasm):
    """An image of the whole module fits the cut one: memory, globals and table are declared the same."""
    small = _drop(wasm)
    before = {s: wasm[a:b] for s, a, b in wasmbin.sections(wasm)}
    after = {s: small[a:b] for s, a, b in wasmbin.sections(small)}
    for section in (wasmbin.TYPE, wasmbin.IMPORT, wasmbin.TABLE, wasmbin.MEMORY, wasmbin.GLOBAL):
        assert before[section] == after[section]
    assert wasmbin.CUSTOM not in after
    assert len(wasmbin.body_sizes(small)) < len(wasmbin.body_sizes(wasm)) + 2


@pytest.mark.parametrize(
    "text",
    [
        '(module (func $a) (func $b) (global funcref (ref.func $a)) (export "b" (func $b)))',
        "(module (func $a) (func $b) (elem declare func $a))",
    ],
)
def test_the_cut_refuses_what_it_does_not_know(engine, text):
    """A reference that would need a new number in a place that is not rewritten is refused, not broken."""
    with pytest.raises(InvalidModule):
        cut.drop_functions(binding.wat2wasm(engine.lib, text), {0}, set())


def test_stub_bodies_trap_or_return(engine, wasm, tmp_path):
    """Stubbing in place keeps every index."""
    numbers = {name: index - 1 for index, name in wasmbin.function_names(wasm).items()}
    stubbed = wasmbin.stub_bodies(wasm, [numbers["gone"]], [numbers["dtor"]])
    instance, notes, _keep = _instance(engine, stubbed, tmp_path)
    assert instance.call(b"run", 5, 1) == 10
    with pytest.raises(binding.Trap):
        instance.call(b"run", 5, 2)
    instance.call(b"act")
    assert notes == []


def test_add_exports_by_name(engine, wasm, tmp_path):
    """A named internal function becomes callable; an unknown name is an error that names it."""
    instance, _notes, _keep = _instance(engine, wasmbin.add_exports(wasm, ["double"]), tmp_path)
    assert instance.call(b"double", 21) == 42
    with pytest.raises(InvalidModule, match="nothing_like_it"):
        wasmbin.add_exports(wasm, ["nothing_like_it"])


def test_strip_custom_removes_names_only(wasm):
    """Without custom sections the module is the same but for its names."""
    stripped = wasmbin.strip_custom(wasm)
    assert wasmbin.function_names(stripped) == {}
    assert wasmbin.body_sizes(stripped) == wasmbin.body_sizes(wasm)


def test_census_counts(engine):
    """Counts are those of the text."""
    text = _TEXT.replace('"host" "note"', '"wasi_snapshot_preview1" "proc_exit"')
    counted = census.count(binding.wat2wasm(engine.lib, text))
    assert (counted.imports, counted.functions, counted.tables, counted.memories) == (1, 9, 1, 1)
    assert (counted.memory_bytes, counted.table_elements, counted.exports) == (65536, 6, 4)
    census.check(counted)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(module (memory i64 1))", "64-bit"),
        ("(module (memory 1 2 shared))", "shared"),
        ("(module (memory 1) (memory 1))", "memories"),
        ("(module (table 2000000 funcref))", "table elements"),
        ("(module " + "(table 1 funcref)" * 17 + ")", "tables"),
        ("(module " + '(import "a" "b" (func))' * 1001 + ")", "imports"),
        ('(module (import "env" "system" (func)))', "env.system"),
        ('(module (import "wasi_snapshot_preview1" "memory" (memory 1)))', "memory"),
        ("(module (tag))", "tags"),
        ("(component)", "component"),
    ],
)
def test_census_names_what_is_over_a_cap_or_off(engine, text, why):
    """Every cap and every feature that is off is refused by name before anything is compiled."""
    with pytest.raises(InvalidModule, match=why):
        census.check(census.count(binding.wat2wasm(engine.lib, text)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    """No input makes the reader do anything but answer or raise InvalidModule."""
    for body in (data, wasmbin.MAGIC + data):
        try:
            counted = census.count(body)
        except InvalidModule:
            continue
        assert counted.code_bytes <= len(body)


@given(st.data())
def test_damaged_modules_are_read_or_refused(wasm, data):
    """A real module with bytes changed, cut or doubled gives an answer or InvalidModule from every function."""
    body = bytearray(wasm)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(body[: data.draw(st.integers(8, len(body)))])
    calls = (
        census.count, wasmbin.strip_custom, wasmbin.function_names, wasmbin.body_sizes,
        wasmbin.types_without_result, wasmbin.imported_functions, lambda b: wasmbin.add_exports(b, ["double"]),
    )  # fmt: skip
    for call in calls:
        try:
            call(body)
        except InvalidModule:
            pass


@given(st.integers(0, 2**32 - 1))
def test_leb128_round_trip(number):
    """What is encoded is read back, and nothing is left."""
    reader = wasmbin.Reader(wasmbin.uleb(number))
    assert reader.u32() == number
    reader.done()


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x00"])
def test_leb128_refuses_overlong_and_cut_numbers(data):
    """At most 32 bits in at most five bytes."""
    with pytest.raises(InvalidModule):
        wasmbin.Reader(data).u32()
