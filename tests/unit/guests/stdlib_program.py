"""Exercises the standard library inside the Python guest; prints ``ok`` and how many parts ran."""
# A guest program, not a module of ours: it imports widely and tries odd things on purpose.
# ruff: noqa: DTZ001, DTZ007, E401, F401, FURB192, I001, PLC3002, PLW0603, SIM115, SIM300, TID251, UP017

import array, ast, asyncio, base64, binascii, bisect, bz2, calendar, cmath, codecs, collections, contextlib
import contextvars, copy, csv, dataclasses, datetime, decimal, difflib, enum, fractions, functools, gc, glob
import gzip, hashlib, heapq, hmac, html.parser, io, ipaddress, itertools, json, locale, logging, lzma, math
import operator, os, pathlib, pickle, pprint, queue, random, re, secrets, shutil, sqlite3, statistics, string
import struct, symtable, sys, tarfile, tempfile, textwrap, threading, time, tokenize, traceback, types, typing
import unicodedata, urllib.parse, uuid, warnings, weakref, xml.etree.ElementTree, zipfile, zlib, zoneinfo

parts = 0


def check(condition):
    global parts
    assert condition
    parts += 1


data = b"fastness " * 5000
for module in (zlib, bz2, lzma, gzip):
    check(module.decompress(module.compress(data)) == data)

db = sqlite3.connect(":memory:")
db.execute("create table t(a integer, b text)")
db.executemany("insert into t values (?, ?)", [(i, str(i * i)) for i in range(500)])
check(db.execute("select count(*), sum(a), max(length(b)) from t where a % 2").fetchone() == (250, 62500, 6))
db.execute("create virtual table f using fts5(body)")
db.execute("insert into f values ('the quick brown fox')")
check(db.execute("select count(*) from f where f match 'quick'").fetchone() == (1,))

check(json.loads(json.dumps({"a": [1, 2.5, None, "é"]})) == {"a": [1, 2.5, None, "é"]})
check(list(csv.reader(io.StringIO("a,b\n1,'x'\n"))) == [["a", "b"], ["1", "'x'"]])
check(decimal.Decimal(2).sqrt() ** 2 < decimal.Decimal("2.0000000001"))
check(fractions.Fraction(1, 3) + fractions.Fraction(1, 6) == fractions.Fraction(1, 2))
check(re.sub(r"(?<=a)(b+)", lambda m: m[1].upper(), "abba") == "aBBa")
check(datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc).isoformat() == "2024-02-29T00:00:00+00:00")
check(datetime.datetime.strptime("2024-02-29", "%Y-%m-%d").strftime("%j") == "060")
check(zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(datetime.datetime(2024, 7, 1)) == datetime.timedelta(hours=2))


async def answer():
    await asyncio.sleep(0)
    return sum(await asyncio.gather(*[asyncio.sleep(0, k) for k in range(5)]))


class Loop(asyncio.SelectorEventLoop):
    """A loop without the pair of sockets that wakes it from other threads: the guest has neither."""

    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass


check(asyncio.run(answer(), loop_factory=Loop) == 10)
for name in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s"):
    check(len(hashlib.new(name, data).digest()) >= 16)
check(hmac.compare_digest(hmac.new(b"k", b"m", "sha256").digest(), hmac.digest(b"k", b"m", "sha256")))
check(struct.unpack("<iqd", struct.pack("<iqd", 1, 2, 3.5)) == (1, 2, 3.5))
check(pickle.loads(pickle.dumps({"x": {1, 2}})) == {"x": {1, 2}})
check(statistics.stdev([1, 2, 3, 4]) > 1.29)
check(math.isclose(cmath.exp(1j * math.pi).real, -1) and math.gamma(5) == 24)
check(unicodedata.normalize("NFD", "é") == "e\u0301")
check("日本".encode("shift_jis").decode("shift_jis") == "日本" and "中".encode("gb18030") and "한".encode("euc_kr"))
check(xml.etree.ElementTree.fromstring("<a><b c='1'>t</b></a>").find("b").attrib == {"c": "1"})
check(random.Random(7).random() == random.Random(7).random())
check(len(secrets.token_bytes(8)) == 8 and uuid.uuid4().version == 4)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "a.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.txt", data)
    check(zipfile.ZipFile(path).read("x.txt") == data)
    with tarfile.open(pathlib.Path(folder, "a.tar.xz"), "w:xz") as archive:
        archive.add(path, "a.zip")
    check(tarfile.open(pathlib.Path(folder, "a.tar.xz")).getnames() == ["a.zip"])
    check(sorted(os.listdir(folder)) == ["a.tar.xz", "a.zip"])


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0


check(sorted([Point(2), Point(1, 5)])[0] == Point(1, 5))
check(ast.literal_eval("[1, {'a': (2,)}]") == [1, {"a": (2,)}])
check(list(heapq.merge([1, 3], [2])) == [1, 2, 3] and bisect.bisect([1, 2, 3], 2) == 2)
check(array.array("d", [1.5]).tobytes() and binascii.crc32(data) == zlib.crc32(data))
check(sum(itertools.islice(itertools.count(), 10)) == 45 and collections.Counter("aab").most_common(1) == [("a", 2)])
check(functools.reduce(operator.mul, range(1, 20)) == math.factorial(19) and 7**777 % 1000 == pow(7, 777, 1000))
check("".join(difflib.unified_diff(["a\n"], ["b\n"])).count("\n") == 5)
check(symtable.symtable("x = 1", "f", "exec").get_symbols()[0].get_name() == "x")
check(eval(compile("max(3, 4)", "f", "eval")) == 4)
try:
    exec("def f(:")
except SyntaxError as error:
    check(error.lineno == 1)
try:
    raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
except* ValueError as group:
    check(len(group.exceptions) == 1)
except* KeyError:
    check(True)
check(traceback.format_exception(ValueError("v"))[-1] == "ValueError: v\n")
gc.collect()
try:
    (lambda f: f(f))(lambda f: f(f))
except RecursionError:
    check(True)
print("ok", parts)
