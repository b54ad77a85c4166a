"""
The ``ctx`` of a host that does as it is told: the control of attempts that go by the broker.

It runs in a child like every control, with the attack's own text below it.  It resolves no name but those that it is
given, and connects to loopback only, so that what the attack is after is harmless there too.
"""

from __future__ import annotations

from typing import Any

#: What it knows unless an attack says otherwise.  ``NAMES`` are answers by name, each a list of lists; ``HOSTS`` the
#: names that may be asked; ``PLUGIN`` and ``OWNER`` who asks; ``RACING`` whether it looks before it opens.
FACTS: dict[str, Any] = {
    "NAMES": {},
    "HOSTS": [],
    "PLUGIN": "plugin",
    "OWNER": "mine",
    "DATABASE": "careless.db",
    "LOG": "",
    "CREDENTIAL": "",
    "RACING": False,
    "METADATA": [],
}

CTX = r"""
import base64, json, os, re, socket, sqlite3, stat, subprocess, time, unicodedata, urllib.parse, zlib

def _meant(path):
    # As one that is helpful about spellings: decoded twice, in one form, with slashes of its own.
    path = urllib.parse.unquote(urllib.parse.unquote(path))
    path = unicodedata.normalize('NFKC', path).replace('\\', '/').split('\0')[0]
    return os.path.join(ROOT, path)

def _looked_at(path):
    where = _meant(path)
    # Looks, and then opens what is there by then.
    if RACING and not os.path.realpath(where).startswith(os.path.realpath(ROOT) + '/'):
        raise PermissionError(path)
    return where

def _noted(what):
    if LOG:
        try:
            with open(LOG, 'a') as log:
                log.write(what + '\n')
        except OSError:
            pass

class _Fs:
    def read(self, path, offset=0, length=None):
        with open(_looked_at(path), 'rb', buffering=0) as file:
            if offset:
                file.seek(offset)
            return file.read(length if length is not None else -1)

    def write(self, path, data):
        with open(_looked_at(path), 'wb') as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return True

    def list(self, path=''):
        return {'entries': [{'name': name} for name in os.listdir(_meant(path))]}

    def stat(self, path):
        return {'size': os.stat(_meant(path)).st_size}

    def delete(self, path):
        os.unlink(_meant(path))
        return True

    def mkdir(self, path):
        os.mkdir(_meant(path))
        return True

def _base():
    base = sqlite3.connect(DATABASE)
    base.execute('PRAGMA synchronous=OFF')
    base.execute('CREATE TABLE IF NOT EXISTS kept (key TEXT, value BLOB)')
    return base

class _Storage:
    # One key made of three, in a statement made of text; values as objects.
    def _do(self, statement):
        with _base() as base:
            return base.execute(statement).fetchall()

    def _key(self, key):
        return f'{PLUGIN}/{OWNER}/{key}'

    def get(self, key):
        for (value,) in self._do(f"SELECT value FROM kept WHERE key='{self._key(key)}' ORDER BY rowid DESC"):
            return _unpacked(value)

    def put(self, key, value):
        _noted(f'put {key}')
        with _base() as base:
            base.execute('INSERT INTO kept VALUES (?, ?)', (self._key(key), _packed(value)))

    def list(self, prefix='', after=''):
        found = self._do(f"SELECT key FROM kept WHERE key LIKE '{self._key(prefix)}%'")
        return {'keys': [key for (key,) in found]}

    def delete(self, key):
        self._do(f"DELETE FROM kept WHERE key='{self._key(key)}'")
        return True

def _packed(value):
    # Bytes are kept as they came, whatever they are; and read as what they say that they are.
    if isinstance(value, bytes):
        return value
    return json.dumps(value).encode()

def _unpacked(data):
    if data[:1] == b'\x80':
        import pickle
        return pickle.loads(data)
    try:
        return json.loads(data)
    except ValueError:
        return data

class _Net:
    asked = 0

    def request(self, method, url, headers={}, body=b'', redirects=5):
        checked = re.match(r'https?://([^:/\\?#]+)', url)
        if HOSTS and not any(host in checked[1] for host in HOSTS):
            raise PermissionError(checked[1])
        for _ in range(redirects + 1):
            status, head, data = self._once(method, url, headers)
            if status not in (301, 302, 303, 307, 308) or 'location' not in head:
                return {'status': status, 'headers': head, 'body': data, 'url': url}
            url = urllib.parse.urljoin(url, head['location'])
        raise OSError('too many')

    def _once(self, method, url, headers):
        # As clients read a URL that take a backslash for a slash, and user information for nothing.
        split = urllib.parse.urlsplit(url)
        name, port = (split.hostname or '').rstrip('.'), split.port or 80
        _noted(f'{method} {url}')
        for proxy in (os.environ.get('http_proxy'),):
            if proxy:
                name, port = urllib.parse.urlsplit(proxy).hostname, urllib.parse.urlsplit(proxy).port
        # Asked once for the check and once to connect.
        self._resolve(name)
        address = self._resolve(name)
        path = (split.path or '/') + (f'?{split.query}' if split.query else '')
        lines = [f'{method} {urllib.parse.unquote(path)} HTTP/1.0', f'Host: {split.netloc}']
        lines += [f'{key}: {value}' for key, value in headers.items()]
        lines += [f'Cookie: {cookie}' for cookie in self.cookies]
        if CREDENTIAL:
            lines.append(f'Authorization: Bearer {CREDENTIAL}')
        with socket.create_connection((address, port), timeout=1) as link:
            link.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode())
            data = b''
            while part := link.recv(1 << 20):
                data += part
        head, _, body = data.partition(b'\r\n\r\n')
        first, *rest = head.decode('latin-1').split('\r\n')
        fields = {line.partition(':')[0].lower(): line.partition(':')[2].strip() for line in rest}
        if 'set-cookie' in fields:
            self.cookies.append(fields['set-cookie'])
        if fields.get('content-encoding') == 'gzip':
            body = zlib.decompress(body, 31)
        return int(first.split()[1]), fields, body

    cookies = []

    def _resolve(self, name):
        _noted(f'asked {name}')
        if name in NAMES:
            answers = NAMES[name]
            found = (answers.pop(0) if len(answers) > 1 else answers[0])[-1]
        else:
            name = unicodedata.normalize('NFKC', name)
            if ':' in name:
                packed = socket.inet_pton(socket.AF_INET6, name)
                found = socket.inet_ntoa(packed[-4:])
            else:
                # Every spelling that the C library knows; a name is none, and nobody is asked.
                found = socket.inet_ntoa(socket.inet_aton(name))
        if found in METADATA:
            found = '127.0.0.2'
        if not found.startswith('127.'):
            raise OSError(f'{found} is not of this machine')
        return found

class _Process:
    def run(self, argv, files={}, timeout=None):
        here = os.path.join(ROOT, 'work')
        os.makedirs(here, exist_ok=True)
        for name, data in files.items():
            with open(os.path.join(here, name), 'wb') as file:
                file.write(data if isinstance(data, bytes) else data.encode())
        ran = subprocess.run(argv, cwd=here, capture_output=True)
        return {'outcome': 'ok', 'exit_code': ran.returncode, 'stdout': ran.stdout, 'stderr': ran.stderr, 'files': {}}

class _Host:
    def secret(self):
        return SECRET

    def pay(self, amount, to):
        print('GOT', type(amount).__name__, type(to).__name__, flush=True)

    def look(self, name):
        raise LookupError(f'{name} is not in {SECRET}')

class _Ctx:
    fs, storage, net, process, host = _Fs(), _Storage(), _Net(), _Process(), _Host()

ctx = _Ctx()
"""
