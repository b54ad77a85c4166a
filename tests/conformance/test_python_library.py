"""
What a program may expect of the Python guest's library: each entry is a small program that checks itself.

The guest of ``wasm`` has no processes, threads, sockets or C extensions loading, native guests have no processes and no
sockets; everything else of the standard library that programs for data analysis use works, and the four large packages
do real work.
"""

from __future__ import annotations

import importlib.util
import struct
import zlib

import pytest

import fastness
import house

PROGRAMS = {
    "asyncio": """
import asyncio
async def one(n):
    await asyncio.sleep(0.001 * (5 - n)); return n
async def main():
    done = []
    async def note(n): done.append(await one(n))
    async with asyncio.TaskGroup() as group:
        for n in range(5): group.create_task(note(n))
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert await asyncio.gather(*map(one, range(4))) == [0, 1, 2, 3]
    try:
        async with asyncio.timeout(0.01): await asyncio.sleep(60)
    except TimeoutError: pass
    else: raise AssertionError
    queue = asyncio.Queue(1)
    async def put():
        for n in range(3): await queue.put(n)
    task = asyncio.create_task(put())
    assert [await queue.get() for _ in range(3)] == [0, 1, 2]
    await task
    lock = asyncio.Lock()
    async with lock: pass
    async def gen():
        for n in range(3): yield n; await asyncio.sleep(0)
    assert [n async for n in gen()] == [0, 1, 2]
asyncio.run(main())
asyncio.run(main())
""",
    "random": """
import random, secrets, uuid
values = {random.random() for _ in range(100)} | {secrets.token_hex(8) for _ in range(100)} | {uuid.uuid4() for _ in range(9)}
assert len(values) == 209
assert sorted(random.sample(range(10), 10)) == list(range(10))
random.seed(1); assert random.random() == 0.13436424411240122
assert random.SystemRandom().randrange(5) in range(5)
""",
    "tempfile": """
import os, tempfile
with tempfile.TemporaryDirectory() as folder:
    assert folder.startswith(os.environ['TMPDIR'] + '/')
    with open(os.path.join(folder, 'a'), 'w') as f: f.write('x')
assert not os.path.exists(folder)
with tempfile.NamedTemporaryFile('w+') as f:
    f.write('hello'); f.seek(0); assert f.read() == 'hello'; name = f.name
assert not os.path.exists(name)
with tempfile.TemporaryFile() as f: f.write(b'x')
fd, path = tempfile.mkstemp(); os.close(fd); os.remove(path)
with tempfile.SpooledTemporaryFile(10) as f: f.write(b'x' * 100); f.seek(0); assert len(f.read()) == 100
""",
    "sqlite3": """
import sqlite3
for path in (':memory:', 'data.db'):
    with sqlite3.connect(path) as db:
        db.execute('create table t (a integer primary key, b text, c real, d blob)')
        db.executemany('insert into t (b, c, d) values (?, ?, ?)', [(str(i), i / 2, bytes([i])) for i in range(100)])
        assert db.execute('select sum(c), count(*), max(b) from t where a > 50').fetchone() == (3725 / 2, 50, '99')
        db.create_function('twice', 1, lambda x: 2 * x)
        assert db.execute('select twice(21)').fetchone() == (42,)
        db.execute('create index i on t (b)'); db.commit()
        try: db.execute('insert into t (a) values (1)')
        except sqlite3.IntegrityError: db.rollback()
        else: raise AssertionError
        assert db.execute("select json_extract('{\\"a\\": [1, 2]}', '$.a[1]')").fetchone() == (2,)
        assert db.execute('with recursive n(x) as (select 1 union all select x + 1 from n where x < 9) select sum(x) from n').fetchone() == (45,)
    db.close()
db = sqlite3.connect('data.db'); assert db.execute('pragma integrity_check').fetchone() == ('ok',)
assert len(db.execute('select * from t').fetchall()) == 100
db.close()
""",
    "json": """
import json
value = {'a': [1, 2.5, None, True, '\\u2603'], 'b': {'c': []}}
assert json.loads(json.dumps(value)) == value
assert json.dumps(value, indent=1, sort_keys=True).count('\\n') > 5
with open('v.json', 'w') as f: json.dump(value, f)
with open('v.json') as f: assert json.load(f) == value
try: json.loads('{')
except json.JSONDecodeError as e: assert e.pos == 1
""",
    "csv": """
import csv, io
rows = [['a', 'b'], ['1', 'x,"y"'], ['2', 'line\\nbreak'], ['\\u2603', '']]
with open('t.csv', 'w', newline='') as f: csv.writer(f).writerows(rows)
with open('t.csv', newline='') as f: assert list(csv.reader(f)) == rows
assert list(csv.DictReader(io.StringIO('a;b\\n1;2'), delimiter=';')) == [{'a': '1', 'b': '2'}]
""",
    "datetime": """
import calendar, time
from datetime import date, datetime, timedelta, timezone, UTC
now = datetime.now(UTC)
assert now.year >= 2024 and abs(time.time() - now.timestamp()) < 5
assert datetime(2024, 2, 29, tzinfo=UTC) + timedelta(days=366) == datetime(2025, 3, 1, tzinfo=UTC)
assert datetime.fromisoformat('2024-02-29T12:00:00+02:00').astimezone(UTC).hour == 10
assert datetime.strptime('3 Jan 2021', '%d %b %Y').date() == date(2021, 1, 3)
assert date(2021, 1, 3).isocalendar()[:2] == (2020, 53)
assert calendar.monthrange(2024, 2) == (3, 29)
assert time.strftime('%Y-%m-%d', time.gmtime(0)) == '1970-01-01'
assert datetime.fromtimestamp(0).isoformat() == '1970-01-01T00:00:00'
a = time.monotonic(); b = time.perf_counter(); time.sleep(0.01)
assert time.monotonic() - a >= 0.01 and time.perf_counter() - b >= 0.01
""",
    "decimal and fractions": """
from decimal import Decimal, getcontext, ROUND_HALF_EVEN
from fractions import Fraction
assert Decimal('0.1') + Decimal('0.2') == Decimal('0.3')
getcontext().prec = 50
assert str(Decimal(2).sqrt()) == '1.4142135623730950488016887242096980785696718753769'
assert Decimal('2.5').quantize(Decimal(1), ROUND_HALF_EVEN) == 2
assert Fraction(1, 3) + Fraction(1, 6) == Fraction(1, 2)
""",
    "zipfile and friends": """
import bz2, gzip, io, lzma, tarfile, zipfile, zlib
data = bytes(range(256)) * 500
for module in (bz2, gzip, lzma, zlib): assert module.decompress(module.compress(data)) == data
for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
    with zipfile.ZipFile('a.zip', 'w', method) as z: z.writestr('x/y', data); z.writestr('z', 'text')
    with zipfile.ZipFile('a.zip') as z:
        assert z.testzip() is None and z.namelist() == ['x/y', 'z'] and z.read('x/y') == data
with zipfile.ZipFile('a.zip') as z: z.extractall('out')
assert open('out/z').read() == 'text'
with tarfile.open('a.tar.gz', 'w:gz') as t: t.add('out', 'inside')
with tarfile.open('a.tar.gz') as t: assert 'inside/z' in t.getnames(); t.extractall('more', **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
assert open('more/inside/x/y', 'rb').read() == data
""",
    "dataclasses, enum, typing": """
import dataclasses, enum, typing
@dataclasses.dataclass(frozen=True, slots=True, order=True)
class P:
    x: int
    y: list[int] = dataclasses.field(default_factory=list)
assert dataclasses.asdict(P(1, [2])) == {'x': 1, 'y': [2]} and P(1) < P(2)
try: P(1).x = 2
except dataclasses.FrozenInstanceError: pass
else: raise AssertionError
class Colour(enum.StrEnum): RED = enum.auto()
assert Colour.RED == 'red' and enum.Flag('F', 'A B').A
class N(typing.NamedTuple):
    a: int = 1
assert N()._asdict() == {'a': 1} and typing.get_type_hints(P)['x'] is int
""",
    "re": """
import re
assert re.findall(r'(?P<k>\\w+)=(\\d+)', 'a=1, b=22') == [('a', '1'), ('b', '22')]
assert re.sub(r'(?<=\\d)(?=(\\d{3})+$)', ',', '1234567') == '1,234,567'
assert re.fullmatch(r'\\p'[:1] + 'd+', '123') and re.match('\\u2603+', '\\u2603\\u2603').end() == 2
assert re.split(r'\\s*[,;]\\s*', 'a , b;c') == ['a', 'b', 'c']
""",
    "collections and itertools": """
import bisect, collections, functools, heapq, itertools, operator
assert collections.Counter('abracadabra').most_common(1) == [('a', 5)]
d = collections.deque([1, 2, 3], maxlen=3); d.append(4); assert list(d) == [2, 3, 4]
assert not hasattr(itertools, 'batched') or list(itertools.batched('abcde', 2))[-1] == ('e',)
assert list(itertools.pairwise([1, 2, 3])) == [(1, 2), (2, 3)]
assert heapq.nsmallest(2, [3, 1, 2]) == [1, 2] and bisect.bisect([1, 3], 2) == 1
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
assert fib(90) == 2880067194370816120 and functools.reduce(operator.mul, range(1, 6)) == 120
""",
    "math and statistics": """
import cmath, math, statistics
assert math.isclose(math.sin(math.pi / 6), 0.5) and math.comb(50, 25) == 126410606437752 and math.gcd(12, 18) == 6
assert math.fsum([0.1] * 10) == 1.0 and math.isqrt(10**40) == 10**20 and math.nextafter(1, 2) > 1
assert cmath.isclose(cmath.exp(1j * cmath.pi), -1)
assert statistics.median([3, 1, 2]) == 2 and round(statistics.stdev([1, 2, 3, 4]), 6) == 1.290994
assert 2**4000 % 10**9 == pow(2, 4000, 10**9) and int('1' * 4000) > 0
""",
    "hashes": """
import base64, binascii, hashlib, hmac
assert hashlib.sha256(b'abc').hexdigest().startswith('ba7816bf')
assert hashlib.md5(b'').hexdigest() == 'd41d8cd98f00b204e9800998ecf8427e'
assert hashlib.blake2b(b'x', digest_size=8).digest_size == 8 and hashlib.sha3_256(b'').hexdigest()[:4] == 'a7ff'
assert hmac.new(b'k', b'm', 'sha256').hexdigest() == hmac.digest(b'k', b'm', hashlib.sha256).hex()
assert base64.b64decode(base64.b64encode(bytes(range(256)))) == bytes(range(256)) and binascii.crc32(b'a') == 3904355907
""",
    "text": """
import difflib, html, string, textwrap, unicodedata, pprint, shlex, locale
assert unicodedata.normalize('NFC', 'e\\u0301') == '\\xe9' and unicodedata.name('\\u2603') == 'SNOWMAN'
assert textwrap.fill('a b c d', 3) == 'a b\\nc d' and html.unescape('&lt;') == '<' and shlex.split('a "b c"') == ['a', 'b c']
assert difflib.get_close_matches('appel', ['ape', 'apple'])[0] == 'apple'
assert f'{1234567.891:,.2f}' == '1,234,567.89' and f'{"x":>5}|{255:#x}|{0.5:.0%}' == '    x|0xff|50%'
assert '\\u0130'.lower() == 'i\\u0307' and 'stra\\xdfe'.upper() == 'STRASSE' and sorted(['b', 'A']) == ['A', 'b']
""",
    "pathlib, shutil, glob": """
import glob, os, shutil
from pathlib import Path
Path('a/b').mkdir(parents=True); Path('a/b/f.txt').write_text('1'); Path('a/g.txt').write_text('2')
assert sorted(p.name for p in Path('a').rglob('*.txt')) == ['f.txt', 'g.txt'] and glob.glob('a/*.txt') == ['a/g.txt']
shutil.copytree('a', 'c'); shutil.move('c/g.txt', 'h.txt'); shutil.rmtree('a')
assert sorted(p.as_posix() for p in Path().rglob('*')) == ['c', 'c/b', 'c/b/f.txt', 'h.txt']
assert os.stat('h.txt').st_size == 1 and Path('h.txt').resolve() == Path.cwd().resolve() / 'h.txt' and not Path('a').exists()
shutil.make_archive('arch', 'zip', 'c'); shutil.unpack_archive('arch.zip', 'd'); assert Path('d/b/f.txt').read_text() == '1'
os.replace('h.txt', 'i.txt'); os.truncate('i.txt', 0); assert os.path.getsize('i.txt') == 0
with os.scandir('d') as entries: assert [e.name for e in entries if e.is_dir()] == ['b']
""",
    "files and buffers": """
import io, mmap, os, struct
with open('f', 'w+b') as f:
    f.write(b'0123456789'); f.seek(-3, 2); assert f.read() == b'789'; f.seek(2); f.write(b'XX'); f.truncate(6)
    f.seek(0); assert f.read() == b'01XX45' and f.tell() == 6
with open('t', 'w', encoding='utf-16', newline='\\r\\n') as f: f.write('a\\n\\u2603')
assert open('t', 'rb').read().startswith((b'\\xff\\xfe', b'\\xfe\\xff')) and open('t', encoding='utf-16').read() == 'a\\n\\u2603'
with open('f', 'ab') as f: f.write(b'!')
assert open('f', 'rb').read() == b'01XX45!' and struct.unpack('<Ihd', struct.pack('<Ihd', 1, -2, 0.5)) == (1, -2, 0.5)
try: open('f', 'x')
except FileExistsError: pass
fd = os.open('g', os.O_RDWR | os.O_CREAT | os.O_EXCL); os.write(fd, b'abc'); os.lseek(fd, 1, 0); assert os.read(fd, 9) == b'bc'
assert os.pread(fd, 1, 0) == b'a' and os.fstat(fd).st_size == 3; os.fsync(fd); os.close(fd)
assert memoryview(bytearray(b'abcd'))[1:3].tobytes() == b'bc' and io.StringIO('x\\ny').readlines() == ['x\\n', 'y']
""",
    "copying and weak references": """
import array, copy, gc, pickle, weakref
class A: pass
a = A(); a.self = a; r = weakref.ref(a); b = copy.deepcopy(a); assert b.self is b
del a; gc.collect(); assert r() is None
assert pickle.loads(pickle.dumps({'x': [1, (2, {3})], 'y': array.array('d', [1.5])}))['y'][0] == 1.5
""",
    "errors and context": """
import contextlib, contextvars, logging, traceback, warnings, io
log = io.StringIO(); logging.basicConfig(stream=log, force=True); logging.warning('hot'); assert 'hot' in log.getvalue()
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter('always'); warnings.warn('old', DeprecationWarning); assert len(found) == 1
with contextlib.redirect_stdout(io.StringIO()) as out: print('x')
assert out.getvalue() == 'x\\n'
try:
    try: 1 / 0
    except ZeroDivisionError as e: raise ValueError('outer') from e
except ValueError as e: assert 'direct cause' in ''.join(traceback.format_exception(e))
try: raise ExceptionGroup('g', [KeyError(1), ValueError(2)])
except* KeyError as group: assert len(group.exceptions) == 1
except* ValueError: pass
v = contextvars.ContextVar('v', default=1); assert contextvars.copy_context().run(lambda: (v.set(2), v.get())[1]) == 2 and v.get() == 1
""",
    "structured text": """
import configparser, email.message, tomllib, urllib.parse, xml.etree.ElementTree as tree, html.parser, ast
c = configparser.ConfigParser(); c.read_string('[a]\\nb = 1'); assert c.getint('a', 'b') == 1
assert tomllib.loads('a = [1, 2]\\n[b]\\nc = "x"') == {'a': [1, 2], 'b': {'c': 'x'}}
assert tree.fromstring('<a><b k="v">t</b></a>').find('b').attrib == {'k': 'v'}
assert urllib.parse.parse_qs('a=1&a=2') == {'a': ['1', '2']} and urllib.parse.quote('a b/\\u2603') == 'a%20b/%E2%98%83'
m = email.message.EmailMessage(); m['Subject'] = 's'; m.set_content('body'); assert 'Subject: s' in m.as_string()
assert ast.literal_eval('[1, {"a": (2, None)}]') == [1, {'a': (2, None)}] and ast.unparse(ast.parse('x=1+2')) == 'x = 1 + 2'
""",
    "unittest and doctest": """
import doctest, io, types, unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
    def test_b(self): self.fail('no')
result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
assert (result.testsRun, len(result.failures)) == (2, 1)
""",
    "imports of the program's own": """
import importlib, os, sys
os.makedirs('pkg/sub'); open('pkg/__init__.py', 'w').write('from .sub import deep\\nX = 1'); open('pkg/sub/__init__.py', 'w').close()
open('pkg/sub/deep.py', 'w').write('Y = 2\\nfrom .. import __name__ as top'); open('single.py', 'w').write('Z = 3')
sys.path.insert(0, '/work') if '/work' not in sys.path and '' not in sys.path else None
importlib.invalidate_caches()
import pkg, single
assert (pkg.X, pkg.deep.Y, pkg.deep.top, single.Z) == (1, 2, 'pkg', 3)
import inspect; assert 'Z = 3' in inspect.getsource(single)
""",
    "numpy": """
import numpy as np
a = np.arange(12, dtype=float).reshape(3, 4)
assert (a @ a.T).shape == (3, 3) and a.mean() == 5.5 and np.allclose(np.linalg.inv(np.eye(3) * 2), np.eye(3) / 2)
assert np.fft.fft([1, 0, 0, 0]).real.tolist() == [1, 1, 1, 1] and np.random.default_rng(1).integers(10, size=3).tolist() == [4, 5, 7]
np.save('a.npy', a); np.savez_compressed('b.npz', a=a, b=a.astype('int32')); assert (np.load('a.npy') == a).all() and np.load('b.npz')['b'].dtype == 'int32'
np.savetxt('t.csv', a, delimiter=','); assert np.allclose(np.loadtxt('t.csv', delimiter=','), a)
assert np.linalg.svd(a)[1].size == 3 and np.einsum('ij,ij->', a, a) == (a ** 2).sum() and np.unique([3, 1, 3]).tolist() == [1, 3]
assert np.datetime64('2024-02-29') + np.timedelta64(1, 'D') == np.datetime64('2024-03-01')
w = np.linalg.solve(np.array([[3., 1], [1, 2]]), np.array([9., 8])); assert np.allclose(w, [2, 3])
""",
    "pandas": """
import io, pandas as pd
d = pd.DataFrame({'k': list('abab'), 'x': [1, 2, 3, 4], 't': pd.date_range('2024-02-28', periods=4)})
assert d.groupby('k')['x'].agg(['sum', 'mean']).loc['a'].tolist() == [4, 2] and d.t.dt.month.tolist() == [2, 2, 3, 3]
assert d.merge(pd.DataFrame({'k': ['a'], 'y': [9]}), how='left').y.isna().sum() == 2
assert d.pivot_table(index='k', values='x', aggfunc='max').x.tolist() == [3, 4] and d.describe().loc['max', 'x'] == 4
d.to_csv('d.csv', index=False); back = pd.read_csv('d.csv', parse_dates=['t']); assert back.equals(d)
assert pd.read_json(io.StringIO(d[['k', 'x']].to_json(orient='records'))).x.sum() == 10
assert d.set_index('t').resample('2D').x.sum().tolist() == [3, 7] and d.x.rolling(2).mean().iloc[-1] == 3.5
assert d.query('x > 2').k.tolist() == ['a', 'b'] and pd.concat([d, d]).shape == (8, 3) and 'k  x' in d.to_string()
assert pd.cut(d.x, 2).value_counts().tolist() == [2, 2] and d.x.corr(d.x ** 2) > 0.9
""",
    "scipy": """
import numpy as np
from scipy import integrate, interpolate, linalg, optimize, signal, sparse, stats
assert abs(optimize.brentq(lambda x: x * x - 2, 0, 2) - 2 ** 0.5) < 1e-9
assert np.allclose(optimize.minimize(lambda p: (p[0] - 1) ** 2 + (p[1] + 2) ** 2, [0, 0]).x, [1, -2], atol=1e-4)
assert abs(integrate.quad(np.exp, 0, 1)[0] - (np.e - 1)) < 1e-9 and abs(stats.norm.cdf(1.96) - 0.975) < 1e-3
assert interpolate.interp1d([0, 1], [0, 2])(0.5) == 1 and sparse.csr_matrix(np.eye(3)).nnz == 3
assert abs(stats.ttest_ind([1, 2, 3, 4], [2, 3, 4, 5]).pvalue - 0.315) < 0.01 and linalg.det(np.eye(2)) == 1
assert signal.find_peaks([0, 1, 0, 2, 0])[0].tolist() == [1, 3]
fit, _ = optimize.curve_fit(lambda x, a, b: a * x + b, np.arange(5.), np.arange(5.) * 3 + 1); assert np.allclose(fit, [3, 1])
""",
    "zoneinfo says what it lacks": """
import zoneinfo
assert zoneinfo.ZoneInfo
try: zoneinfo.ZoneInfo('Nowhere/Atall')
except zoneinfo.ZoneInfoNotFoundError: pass
else: raise AssertionError
""",
}


def needs(tier: str, package: str) -> None:
    """
    Skip where a native guest would import a package that the caller's own interpreter does not have.

    The lock has numpy and pandas; scipy and matplotlib are optional, and tried natively where somebody installed them.
    """
    if tier == "wasm" or package not in ("numpy", "pandas", "scipy", "matplotlib"):
        return
    if importlib.util.find_spec(package) is None:
        if package in ("numpy", "pandas"):
            house.lacks(f"there is no {package} in this environment")
        pytest.skip(f"optional: there is no {package} in this environment")


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_program(box: fastness.Sandbox, tier: str, name: str) -> None:
    """The program checks itself and ends well."""
    needs(tier, name)
    result = box.run(PROGRAMS[name])
    assert result.ok, result.stderr


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG whose chunks are all whole.  Raises AssertionError."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds, size = 8, [], (0, 0)
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + length)[0]
        if kind == b"IHDR":
            size = struct.unpack_from(">II", body)
        kinds.append(kind)
        at += 12 + length
    assert kinds[0] == b"IHDR" and kinds[-1] == b"IEND" and b"IDAT" in kinds
    return size


def test_matplotlib_to_png(box: fastness.Sandbox, tier: str) -> None:
    """A figure with text, saved as PNG, SVG and PDF, is in the result's files as whole files of their kinds."""
    needs(tier, "matplotlib")
    code = (
        "import matplotlib.pyplot as plt, numpy as np\n"
        "fig, axes = plt.subplots(1, 2, figsize=(6, 3), dpi=100)\n"
        "x = np.linspace(0, 6, 100)\n"
        "axes[0].plot(x, np.sin(x), label='sin'); axes[0].legend(); axes[0].set_title('$\\\\alpha^2$ Ünï')\n"
        "axes[1].bar(['a', 'b'], [1, 2]); axes[1].imshow(np.eye(3), aspect='auto')\n"
        "fig.tight_layout()\n"
        "for kind in ('png', 'svg', 'pdf'): fig.savefig('plot.' + kind)\n"
        "plt.close(fig)\n"
    )
    result = box.run(code)
    assert result.ok, result.stderr
    assert result.stderr == ""
    assert sorted(result.files) == ["plot.pdf", "plot.png", "plot.svg"]
    assert png_size(result.files["plot.png"].read()) == (600, 300)
    assert b"</svg>" in result.files["plot.svg"].read()
    assert result.files["plot.pdf"].read().startswith(b"%PDF-")


def test_a_modules_work_without_preload(box: fastness.Sandbox, tier: str) -> None:
    """What is not preloaded can be imported all the same, only later."""
    needs(tier, "numpy")
    code = "import sys; before = 'numpy' in sys.modules; import numpy, numpy.fft; [before, int(numpy.arange(4).sum())]"
    result = box.run(code, preload=())
    assert result.value == [False, 6], result.stderr


_LACKING = {
    "import threading; threading.Thread(target=print).start()": ("RuntimeError", None),
    "import subprocess; subprocess.run(['true'])": ("OSError", "PermissionError"),
    "import os; os.fork()": ("AttributeError", "PermissionError"),
    "import os; os.execv('/bin/true', ['true'])": ("AttributeError", "PermissionError"),
    "import os; os.posix_spawn('/bin/true', ['true'], {})": ("AttributeError", "PermissionError"),
    "import socket; socket.create_connection(('192.0.2.1', 80))": ("gaierror", "PermissionError"),
    "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')": ("URLError", "URLError"),
    "import multiprocessing; multiprocessing.Process(target=print).start()": ("", "PermissionError"),
    "import multiprocessing; multiprocessing.Pool(2)": ("", "Error"),
    "import concurrent.futures as f; f.ProcessPoolExecutor(1).submit(print).result()": ("", "Error"),
    "import ctypes; ctypes.CDLL(None)": ("OSError", None),
    "input()": ("EOFError", "EOFError"),
    "import getpass; getpass.getpass()": ("", ""),
    "import not_installed": ("ModuleNotFoundError", "ModuleNotFoundError"),
}


@pytest.mark.parametrize("code", list(_LACKING))
def test_what_there_is_not(box: fastness.Sandbox, tier: str, code: str) -> None:
    """What the guest lacks is an ordinary exception of the right kind, at once: never a hang, crash or silence."""
    name = _LACKING[code][tier != "wasm"]
    result = box.run(code)
    if name is None:
        # Native guests have threads and libraries.
        assert result.ok
        return
    assert result.outcome.kind is fastness.OutcomeKind.GUEST_ERROR
    assert name in result.stderr
    assert result.usage.wall_s < 5
    assert box.run("1").value == 1
