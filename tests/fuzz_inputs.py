"""Inputs that nobody sends by accident: valid ones of each kind, changed in ways that know what they are.

Each is a function of a ``random.Random``, so a case can be made again from its number alone.
"""

import bz2
import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import cases
from dyncrp import Categorical, DynamicalMixture, Exponential, Gaussian, Multinomial, Stationary
from dyncrp.io.readers import Selection
from dyncrp.serve.bodies import ARROW, CSV, JSON, NDJSON

NUMBERS = ["0", "-0", "1", "-1", "1e308", "1e309", "-1e400", "5e-324", "nan", "inf", "-Infinity", "2147483648", "1_000"]
NUMBERS += ["9223372036854775808", "18446744073709551616", "9" * 400, "0x10", "1,5", "1.234,5", "١٢", "½", "1e", "--1"]
NUMBERS += [
    "+1",
    "1 000",
    "$1",
    "10%",
    "1e999999999",
    ".",
    "-",
    "1.7976931348623157e308",
    "4.9e-324",
    "1e140",
    "-1e139",
]
TEXTS = [
    "",
    " ",
    "NA",
    "null",
    "None",
    "true",
    "No",
    "\x00",
    "é",
    "\u202e",
    "\ufeff",
    "a" * 3000,
    "2024-01-01",
    "2024-02-30",
]
TEXTS += [
    "0000-00-00",
    "9999-12-31T23:59:60",
    "0001-01-01T00:00:00+14:00",
    "12:00",
    "01/02/03",
    "-1-1-1",
    "'",
    '"',
    '""',
]
TEXTS += ["\r", "\n", "\t", ";", "|", "../../x", "{}", "[1, 2]", "\\", "e\u0301", "$(touch x)", "{0.__class__}", "%s%n"]
TEXTS += [
    "=1+1",
    "\ud800",
    "#1",
    "*",
    "x1-x9999999",
    "-",
    "\U0001f600",
    "1e9",
    "1700000000",
    "1700000000000",
    "\x1f",
    "\x85",
]
NAMES = ["x", "y", "z", "t", "who", "x1", "x2", "x", "", " ", "table", "row", "é", "probability", "novelty", "#2", "*"]
WHOLE = [0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63]
WHOLE += [-(2**63), 2**64, 10**30]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-300,
    5e-324,
    1e300,
    -1e300,
    1.7e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e140,
]


class Canary:
    """What a pickle would do if somebody loaded it."""

    folder = ""

    def __reduce__(self):
        return os.mkdir, (self.folder,)


# Bytes


def damage(r, content, others=(b"",), tokens=(b"",), most=4):
    """Return bytes with a few of them changed, cut out, repeated, or taken from elsewhere."""
    data = bytearray(content)
    for _ in range(r.randint(1, most)):
        at = r.randrange(len(data) + 1)
        end = min(len(data), at + r.choice((1, 2, 4, 8, r.randint(1, 64), len(data))))
        match r.randrange(11):
            case 0 if at < len(data):
                data[at] ^= 1 << r.randrange(8)
            case 1 if at < len(data):
                data[at] = r.choice((0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)))
            case 2:
                del data[at:]
            case 3:
                del data[at:end]
            case 4:
                data[at:at] = data[at:end]
            case 5:
                other = r.choice(others)
                begin = r.randrange(len(other) + 1)
                data[at:end] = other[begin : begin + r.randint(0, 256)]
            case 6:
                data[at:at] = r.choice(tokens)
            case 7:
                data[at:end] = r.choice(tokens)
            case 8:
                size = r.choice((2, 4, 8))
                data[at : at + size] = (r.choice(WHOLE) % 2 ** (8 * size)).to_bytes(size, r.choice(("little", "big")))
            case 9:
                data[at:at] = r.randbytes(r.randint(1, 16))
            case _:
                data[at:end] = bytes(reversed(data[at:end]))
    return bytes(data[: 1 << 20])


def compressed(r, content):
    """Return bytes as a compressed file, which is sometimes damaged, and sometimes larger than it looks."""
    if r.random() < 0.005:
        content = gzip.compress(content + r.choice((b"0", b"0\n", b'"', b"[", b",")) * r.choice((10**6, 3 * 10**7)), 1)
    else:
        content = r.choice((lambda raw: gzip.compress(raw, 1), bz2.compress))(content)
    return damage(r, content) if r.random() < 0.5 else content


def encoded(r, text):
    """Return a text as bytes of some encoding, and the name of that encoding as a reader is told it."""
    name = r.choices(("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"), (90, 4, 3, 2, 1))[0]
    errors = "surrogatepass" if name.startswith("utf") else "replace"
    told = r.choice((None, name)) if name in ("utf-8", "utf-16") else name if r.random() < 0.8 else None
    return text.encode(name, errors), None if told == "utf-8-sig" else told


# Values


def number(r):
    """Return a number, as Python has it."""
    kind = r.random()
    return r.gauss(0.0, 5.0) if kind < 0.6 else r.randrange(-3, 9) if kind < 0.9 else r.choice(FLOATS + WHOLE)


def cell(r, kind):
    """Return the text of a cell of a column of some kind; now and then of another."""
    if r.random() < 0.03:
        return r.choice(NUMBERS + TEXTS)
    match kind:
        case 0:
            return repr(round(r.gauss(0.0, 5.0), 3))
        case 1:
            return str(r.randrange(6))
        case 2:
            return r.choice(("red", "green", "blue", "NA"))
        case 3:
            return f"2024-0{r.randint(1, 9)}-{r.randint(10, 28)}T0{r.randrange(10)}:30:00"
        case 4:
            return r.choice(("yes", "no"))
        case 5:
            return str(1_700_000_000 + r.randrange(1000))
        case 6:
            return f"{r.randint(10, 31)}/{r.randint(10, 12)}/2024"
        case 7:
            return r.choice(NUMBERS)
        case _:
            return r.choice(TEXTS)


def value(r, depth=0):
    """Return a value of JSON, nested a little."""
    kind = r.random()
    if kind < 0.5 or depth > 3:
        return number(r)
    if kind < 0.7:
        return r.choice(TEXTS)
    if kind < 0.8:
        return r.choice((None, True, False))
    if kind < 0.9:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {r.choice(NAMES): value(r, depth + 1) for _ in range(r.randrange(4))}


def as_json(r, plain):
    """Return a value as JSON, sometimes as no more than nearly JSON."""
    text = json.dumps(plain, ensure_ascii=r.random() < 0.5)
    if r.random() < 0.02:
        inside = r.choice(("1", "", "{}", "x"))
        deep = r.choice(("[", '{"x":'))
        n = r.choice((50, 500, 5000, 100_000))
        text = r.choice((text.replace("1", deep * n + inside + ("]" if deep == "[" else "}") * n, 1), deep * n))
    return text


# Files of rows


def grid(r):
    """Return the names of columns and rows of cells."""
    width = r.choice((1, 2, 2, 3, 3, 4, 6))
    names = [
        r.choice(NAMES) if r.random() < 0.1 else f"x{at}" if r.random() < 0.3 else "xyztw"[at % 5]
        for at in range(width)
    ]
    kinds = [r.choices(range(9), (8, 4, 3, 2, 2, 1, 1, 1, 1))[0] for _ in range(width)]
    n = r.choice((0, 1, 2, 3, 5, 8, 12, 12, r.choice((12, 30, 30, 200))))
    if r.random() < 0.4:  # times go on
        rows = [[str(t) if at == 0 else cell(r, kinds[at]) for at in range(width)] for t in range(n)]
    else:
        rows = [[cell(r, kind) for kind in kinds] for _ in range(n)]
    for row in rows:
        if r.random() < 0.01:
            row[r.randrange(width) :] = [r.choice(TEXTS) for _ in range(r.randrange(4))]
    return names, rows


def selection(r, names, encoding=None):
    """Return which columns to read, and how: such as the options of the command line make one."""
    told = {}

    def some():
        chosen = (r.choice((*names, *names, *names, "x*", "#1", "nothing")) for _ in range(r.randint(1, 3)))
        return tuple(dict.fromkeys(chosen))

    if r.random() < 0.3:
        told["time_column"] = r.choice((names[0], *names, *names, "t"))
    if r.random() < 0.2:
        told["columns"] = tuple(name for name in some() if name != told.get("time_column")) or None
    if r.random() < 0.2:
        told["keep"] = None if r.random() < 0.5 else some()
    for name, share in (("exclude", 0.05), ("categorical", 0.1), ("numeric", 0.1), ("log", 0.05)):
        if r.random() < share:
            told[name] = some()
    if not set(told.get("categorical", ())).isdisjoint(told.get("numeric", ())):
        del told["numeric"]
    if r.random() < 0.1:
        told["missing"] = (r.choice(("?", "-999", "", "x", "1")),)
    if r.random() < 0.05 and "time_column" in told:
        told["time_format"] = r.choice(("%d/%m/%Y", "s", "ms", "ns", "number", "%Y-%m-%dT%H:%M:%S", "%H:%M"))
    for name in ("label_column", "cannot_link_column", "weight_column"):
        if r.random() < 0.05:
            told[name] = r.choice(names)
    if r.random() < 0.05:
        told = {"text": r.choice(names), "keep": told.get("keep", ())}
    told |= {"skip_bad": r.random() < 0.3, "encoding": encoding}
    return told


def csv_file(r):
    """Return a CSV file and how to read it."""
    names, rows = grid(r)
    delimiter = r.choices(",;|\t ", (80, 10, 4, 5, 1))[0]
    quote = lambda text: '"' + text.replace('"', '""') + '"' if r.random() < 0.05 else text  # noqa: E731
    end = r.choices(("\n", "\r\n", "\r", "\n\n"), (80, 12, 4, 4))[0]
    lines = [delimiter.join(map(quote, row)) for row in ([names] if r.random() < 0.9 else []) + rows]
    content, encoding = encoded(r, end.join(lines) + (end if r.random() < 0.9 else ""))
    if r.random() < 0.4:
        content = damage(
            r, content, tokens=[text.encode("utf-8", "replace") for text in (*NUMBERS, *TEXTS, '"', ",", "\n")]
        )
    if r.random() < 0.05:
        content = compressed(r, content)
    told = selection(r, names, encoding) | {"header": r.random() < 0.9}
    if r.random() < 0.1:
        told["delimiter"] = delimiter
    if r.random() < 0.1 and told.get("delimiter") != ",":
        told["decimal"] = r.choice(".,")
    return content, Selection(**told)


def jsonl_file(r):
    """Return a file of JSON lines and how to read it."""
    names, rows = grid(r)
    objects = []
    for row in rows:
        plain = {}
        for name, text in zip(names, row, strict=False):
            try:
                plain[name] = json.loads(text) if r.random() < 0.95 else text
            except (ValueError, RecursionError):
                plain[name] = text
            if r.random() < 0.02:
                plain[name] = value(r)
            elif names.index(name) == 0 and len(names) == 4:
                plain[name] = [number(r) for _ in range(3 if r.random() < 0.98 else 2)]
        objects.append(plain if r.random() < 0.99 else value(r))
    content, encoding = encoded(r, "".join(as_json(r, plain) + "\n" for plain in objects))
    if r.random() < 0.4:
        content = damage(
            r, content, tokens=[b"[", b"{", b"}", b"NaN", b"1e999", b'"\\ud800"', b"\n", b'"x":', b"\\u0000"]
        )
    if r.random() < 0.05:
        content = compressed(r, content)
    return content, Selection(**selection(r, names, encoding))


DTYPES = [
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    "<u8",
    "|b1",
    "|i1",
    "<f16",
    "<c16",
    "|O",
    "|S4",
    "<U3",
    "<M8[us]",
    "<m8[s]",
    "|V8",
]
DTYPES += ["<f8,<i4", "f", "i8", "<f3", "<f1000000", "", "O8", "(2,)f8", "(99999999,99999999)f8", "a" * 99, "\x00"]


def npy_file(r):
    """Return an .npy file and how to read it."""
    n, width = r.choice((0, 1, 3, 20)), r.choice((1, 2, 3))
    dtype = r.choices(DTYPES, [20] * 7 + [2] * (len(DTYPES) - 7))[0]
    shape = r.choice(
        ((n, width), (n, width), (n,), (n, width, 1), (), (n, 0), (10**18, width), (-1, 2), (2**62, 4), (n, 10**9))
    )
    if r.random() < 0.6:
        shape = (n, width)
    spelt = (
        repr(shape)
        if r.random() < 0.95
        else r.choice(("(1.5, 2)", "(True, 2)", "[3, 2]", "None", "(1e9, 2)", "('3', 2)"))
    )
    descr = (
        repr(dtype)
        if r.random() < 0.95
        else r.choice(("[('a', '<f8'), ('b', 'O')]", "[('a', '<f8', (3,))]", "1", "None"))
    )
    head = f"{{'descr': {descr}, 'fortran_order': {r.choice(('False', 'False', 'True', '1'))}, 'shape': {spelt}, }}"
    if r.random() < 0.05:
        head = r.choice(
            (
                "__import__('os').mkdir('x')",
                "(" * r.choice((90, 900, 9000)),
                "{" * 90,
                head[:-1],
                head + " " * 99_999,
                "{}",
            )
        )
    if dtype == "|O" or r.random() < 0.02:
        body = pickle.dumps([Canary()] * n)
    else:
        body = np.random.default_rng(r.randrange(2**32)).normal(0.0, 5.0, max(n * width, 1)).astype("<f8").tobytes()
        if r.random() < 0.9 and dtype in ("<f8", ">f8", "<i8", "<u8"):
            body = body[: n * width * 8]
    version, size = r.choices(
        ((b"\x01\x00", "<H"), (b"\x02\x00", "<I"), (b"\x03\x00", "<I"), (b"\x09\x00", "<I")), (85, 8, 5, 2)
    )[0]
    text = head.encode() + b"\n"
    told = len(text) if r.random() < 0.95 else r.choice((0, 65535, len(text) - 3))
    content = b"\x93NUMPY" + version + struct.pack(size, told % 65536) + text + body
    if r.random() < 0.4:
        content = damage(r, content, tokens=[b"'|O'", b"(", b"99999999999", b"'<f8'"])
    names = [str(at) for at in range(width)]
    return content, Selection(**(selection(r, names) | {"encoding": None, "text": None}))


def _parquet_files():
    """Return Parquet files with columns of many types."""
    rng, n = np.random.default_rng(0), 40
    when = pd.date_range("2024-01-01", periods=n, freq="h")
    columns = {
        "x": rng.normal(size=n),
        "y": pa.array([None if i % 9 == 0 else float(i) for i in range(n)]),
        "i": rng.integers(0, 5, n).astype(np.int32),
        "u": rng.integers(0, 5, n).astype(np.uint64),
        "b": rng.random(n) < 0.5,
        "w": pa.array([("red", "green", "blue", None)[i % 4] for i in range(n)]),
        "d": pa.array([("red", "green")[i % 2] for i in range(n)]).dictionary_encode(),
        "t": when,
        "e": pa.array(rng.normal(size=(n, 3)).tolist(), pa.list_(pa.float64())),
        "f": pa.array(rng.normal(size=(n, 3)).tolist(), pa.list_(pa.float32(), 3)),
        "m": pa.array([{"a": 1}] * n),
        "n": pa.nulls(n),
        "h": pa.array(rng.normal(size=n).astype(np.float16)),
        "z": pa.array([b"\x00\xff"] * n),
        "dec": pa.array(range(n)).cast(pa.decimal128(21, 2)),
        "day": pa.array(when.date),
        "tz": pa.array(when, pa.timestamp("ns", "Europe/Paris")),
        "ls": pa.array([["a"]] * n),
    }
    chosen = [
        ("x", "y"),
        ("t", "x", "i"),
        ("x", "b", "w"),
        ("e",),
        ("f", "x"),
        tuple(columns),
        ("w", "d"),
        ("u", "h", "dec"),
        ("x",),
    ]
    files = []
    for at, names in enumerate(chosen):
        for compression in ("none", "snappy", "zstd") if at < 4 else ("none",):
            file = io.BytesIO()
            table = pa.table({name: columns[name] for name in names})
            parquet.write_table(
                table, file, compression=compression, row_group_size=(16, 1000)[at % 2], use_dictionary=at % 2 == 0
            )
            files.append((file.getvalue(), list(names)))
    return files


PARQUET = _parquet_files()


def parquet_file(r):
    """Return a Parquet file and how to read it."""
    content, names = r.choice(PARQUET)
    if r.random() < 0.9:
        (length,) = struct.unpack("<I", content[-8:-4])
        cut = len(content) - 8 - length
        tokens = [b"\x00" * 8, b"\xff" * 8, b"PAR1", b"\x15", b"\x0c"]
        if r.random() < 0.6:  # what the end says of the rest
            end = damage(r, content[cut:-8], tokens=tokens)
            content = content[:cut] + end + struct.pack("<I", len(end)) + b"PAR1"
        elif r.random() < 0.7:
            content = damage(r, content[:cut], tokens=tokens)[:cut].ljust(cut, b"\0") + content[cut:]
        else:
            content = damage(r, content, [other for other, _ in PARQUET], tokens)
    return content, Selection(**(selection(r, names) | {"encoding": None}))


# Model files


def _models():
    """Return models of every family, dynamics and rule, each as a file, with rows that it takes."""
    rng = np.random.default_rng(0)
    found = []

    def keep(model, rows, **more):
        found.append((model.to_bytes(), rows, more))

    for case in cases.FAMILIES.values():
        X, _ = cases.draw(case, 30)
        keep(DynamicalMixture(case.family, Exponential(20.0)).fit(X), X[:4])
    X, times = cases.draw(cases.FAMILIES["gaussian"], 30)
    for dynamics in cases.DYNAMICS.values():
        keep(DynamicalMixture(Gaussian(2.0, 3.0), dynamics).fit(X, times=times), X[:4])
    for rule in cases.RULES.values():
        keep(DynamicalMixture(Gaussian(2.0, 3.0), Exponential(5.0), **rule).fit(X), X[:4])
    for params in (
        {"learn_alpha": True},
        {"memory": 20.0},
        {"alarm_rate": 0.05, "n_examples": 3},
        {"memory": 9.0, "max_tables": 3, "n_examples": 1},
    ):
        model = DynamicalMixture(Gaussian(2.0, 3.0), Exponential(5.0), **params).fit(X)
        keep(model, X[:4])
        model.rename(int(model.table_ids_[0]), "door")
        keep(model, X[:4])
    model = DynamicalMixture(Gaussian(2.0, 3.0), Stationary()).fit(
        X, labels=["a", "b", None] * 10, cannot_link=[0, 0, None] * 10
    )
    model.merge(*model.table_ids_[:2].tolist())
    keep(model, X[:4])
    keep(DynamicalMixture(warmup=20).fit(X), X[:4])  # learned
    keep(DynamicalMixture(warmup=100).partial_fit(X[:12]), X[:4])  # not yet
    holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    keep(DynamicalMixture(Gaussian(2.0, 3.0), Stationary()).fit(holes), holes[:4])
    frame = pd.DataFrame(
        {"x": X[:, 0], "c": np.resize(["red", "blue", None], 30), "y": X[:, 1] > 0, "n": np.exp(X[:, 2])}
    )
    keep(DynamicalMixture(warmup=20).fit(frame), frame[:4])
    texts = [" ".join(rng.choice(["cat", "dog", "sun", "rain", "tax"], 6)) for _ in range(20)]
    keep(DynamicalMixture(Multinomial(100.0), Exponential(500.0), alpha=30.0).fit(texts), texts[:4])
    counts = rng.poisson(1.0, (20, 5))
    keep(DynamicalMixture(Multinomial(100.0), Exponential(500.0), alpha=30.0).fit(counts), counts[:4])
    codes = rng.integers(0, 3, (30, 2))
    keep(DynamicalMixture(Categorical(1.0), Exponential(9.0), max_tables=4).fit(codes), codes[:4])
    dated = pd.date_range("2024-01-01", periods=30, freq="min")
    keep(DynamicalMixture(Gaussian(2.0, 3.0), Exponential(pd.Timedelta("1h"))).fit(X, times=dated), X[:4])
    return found


MODELS = _models()


def members_of(content):
    """Return the arrays of a model file, without its seal."""
    with np.load(io.BytesIO(content)) as file:
        return {name: file[name] for name in file.files if name != "sha256"}


MEMBERS = [members_of(content) for content, _, _ in MODELS]


def seal(members):
    """Return arrays as a file whose seal is right, as docs/files.md describes it."""
    digest = hashlib.sha256()
    for name, array in sorted(members.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {"sha256": np.frombuffer(digest.digest(), np.uint8), **members}.items():
            raw = io.BytesIO()
            np.lib.format.write_array(raw, np.asarray(array, order="C"), version=(1, 0), allow_pickle=True)
            archive.writestr(name + ".npy", raw.getvalue())
    return file.getvalue()


def places(plain, path=()):
    """Return the path to every value in a JSON header."""
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    return [path, *(place for key, entry in inner for place in places(entry, (*path, key)))]


KINDS = [
    "Gaussian",
    "Bernoulli",
    "Poisson",
    "Multinomial",
    "Columns",
    "Exponential",
    "Sum",
    "Scaled",
    "Product",
    "Hyperbolic",
]
KINDS += ["LinearODE", "Stationary", "Oscillatory", "object", "DynamicalMixture", "__class__"]


def _header_value(r):
    if r.random() < 0.3:
        inner = {"kind": r.choice(KINDS)}
        for name in ("variance", "timescale", "terms", "factor", "n_modes", "concentration", "coefficients"):
            if r.random() < 0.2:
                inner[name] = value(r)
        return inner
    if r.random() < 0.1:
        return {"array": r.choice(("stats", "ids", "header", "sums", 1))}
    if r.random() < 0.1:
        return {"number": "inf"}
    return value(r)


def _edit_header(r, members, others):
    header = json.loads(members["header"].tobytes())
    *path, last = r.choice(places(header)[1:])
    owner = header
    for key in path:
        owner = owner[key]
    match r.randrange(5):
        case 0:
            del owner[last]
        case 1:
            other = json.loads(r.choice(others)["header"].tobytes())
            owner[last] = r.choice([_at(other, place) for place in places(other)])
        case 2:
            nested = owner[last]
            for _ in range(r.choice((3, 100, 190, 500))):
                nested = r.choice(([nested], {"kind": "Scaled", "factor": 1.0, "dynamics": nested}, {"a": nested}))
            owner[last] = nested
        case _:
            owner[last] = _header_value(r)
    text = json.dumps(header).encode()
    members["header"] = np.frombuffer(damage(r, text) if r.random() < 0.05 else text, np.uint8)


def _at(plain, path):
    for key in path:
        plain = plain[key]
    return plain


def _edit_array(r, members, others):
    name = r.choice(sorted(members.keys() - {"header"} or {"header"}))
    array = members[name].copy()
    array = array.real if r.random() < 0.1 else array
    match r.randrange(9):
        case 0 | 1 | 2 if array.size:
            flat = array.reshape(-1)
            for _ in range(r.choice((1, 1, 3, flat.size))):
                at = r.randrange(flat.size)
                if array.dtype.kind == "i":
                    flat[at] = np.array(r.choice(WHOLE) % 2**64, np.uint64).astype(np.int64)
                elif array.dtype.kind == "u":
                    flat[at] = r.randrange(256)
                else:
                    flat[at] = r.choice(FLOATS)
        case 3:
            del members[name]
            return
        case 4:
            axis = r.randrange(max(array.ndim, 1))
            array = np.concatenate([np.atleast_1d(array)] * 2, axis) if r.random() < 0.5 else np.atleast_1d(array)[:-1]
        case 5:
            array = array.reshape(-1) if r.random() < 0.5 else array[None]
        case 6:
            kind = r.choice(("<f8", "<i8", "<c16", "|u1", ">f8", "<f4", "|O" if r.random() < 0.1 else "<f8"))
            with np.errstate(all="ignore"):
                array = array.real.astype(kind)
        case 7:
            other = r.choice(others)
            array = other[r.choice(sorted(other))]
        case _ if array.size:
            array = array.reshape(-1)[np.random.default_rng(r.randrange(2**32)).permutation(array.size)].reshape(
                array.shape
            )
    members[name] = array


def _hostile_archive(r, content):
    """Return an archive with members that are bombs, pickles, or not what their names say."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = r.choice((*members, "header.npy", "x.npy", "../x.npy", "/tmp/x.npy", "header", "é.npy", "a\x00.npy"))
    pickled = io.BytesIO()
    np.save(pickled, np.array([Canary()], dtype=object), allow_pickle=True)
    huge = npy_head(
        r.choice(("(10**9, 99)", "(999999999999,)", "(-1,)", "(2, 99999999999999999999)")), r.choice(("<f8", "|O"))
    )
    members[name] = r.choice(
        (pickled.getvalue(), pickle.dumps(Canary()), huge, bytes(10**6), b"", damage(r, members["header.npy"]))
    )
    method = r.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for key, raw in members.items():
            archive.writestr(zipfile.ZipInfo(key), raw, method)
    content = file.getvalue()
    if r.random() < 0.5:  # sizes, offsets and methods in the directory at the end
        cut = content.rfind(b"PK\x01\x02") if r.random() < 0.5 else content.find(b"PK\x01\x02")
        content = content[:cut] + damage(r, content[cut:])
    return content


def npy_head(shape, dtype):
    """Return an .npy file that promises more than it has."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


def model_bytes(r):
    """Return a model file, and rows that the model it was made from takes."""
    at = r.randrange(len(MODELS))
    content, rows, _ = MODELS[at]
    kind = r.random()
    if kind < 0.1:
        content = damage(r, content, [other for other, _, _ in MODELS], [b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY"])
    elif kind < 0.2:
        content = _hostile_archive(r, content)
    else:
        members = dict(MEMBERS[at])
        for _ in range(r.choice((1, 1, 1, 2, 4))):
            edit(r, members)
        content = seal(members)
    return content, rows


def _states():
    """Return those models that have a state, each as a file, its state, and rows."""
    found = []
    for content, rows, _ in MODELS:
        with suppress(ValueError):  # it has names, or more than numbers
            found.append((content, DynamicalMixture.from_bytes(content).to_state(), rows))
    return found


STATES = _states()


def state_bytes(r):
    """Return a model file, the state of a model as a stream processor keeps it, damaged, and rows."""
    content, state, rows = r.choice(STATES)
    return content, damage(r, state, [other for _, other, _ in STATES]), rows


# Requests

SETTINGS = [
    {},
    {"family": "gaussian", "dynamics": "stationary()", "alpha": 1.0, "set": {"variance": 1.0, "prior_variance": 100.0}},
    {
        "family": "gaussian",
        "dynamics": "exponential(20)",
        "alpha": 0.1,
        "set": {"variance": 1, "prior_variance": 9},
        "max_tables": 5,
    },
    {
        "family": "poisson",
        "dynamics": "0.9*exponential(9)+0.1*stationary()",
        "alpha": 1,
        "set": {"shape": 1, "rate": 0.1},
    },
    {"family": "bernoulli", "dynamics": "stationary()", "alpha": 1, "set": {"a": 1, "b": 1}, "n_examples": 3},
    {"features": ["x", "y"], "warmup": 20, "alarm_rate": 0.1},
    {
        "family": "gaussian",
        "dynamics": "hyperbolic(9)",
        "alpha": 1,
        "memory": 20,
        "set": {"variance": 1, "prior_variance": 9},
    },
    {"warmup": 8, "prune_below": 0.01, "dynamics": ["exponential()", "stationary()"], "memory": "auto"},
]
JSON_TOKENS = [b"[", b"{", b"NaN", b"1e999", b'"\\ud800"', b"\n", b",", b"null", b"\xff"]
DYNAMICS = [
    "exponential(20)",
    "stationary()",
    "exponential(",
    "((((",
    "0.5*exponential(1)+",
    "1e999*stationary()",
    "exponential(-1)",
]
DYNAMICS += [
    "linear_ode([1,2])",
    "hyperbolic(1e-300)",
    "exponential(20s)",
    "__import__('os')",
    "oscillatory(0)",
    "-" * 2000 + "1",
]
DYNAMICS += [
    "(" * 300 + "stationary()" + ")" * 300,
    "*".join(["oscillatory(7)"] * 12),
    "+".join(["exponential(3)"] * 300),
    "é",
    "",
]


def settings(r, changed=False):
    """Return the settings of a stream as the body of a request, changed or as they should be."""
    told = dict(r.choice(SETTINGS))
    if not changed:
        return json.dumps(told).encode()
    for _ in range(r.choice((0, 0, 1, 2))):
        key = r.choice(
            (
                *("family", "dynamics", "alpha", "memory", "warmup", "max_tables", "prune_below"),
                "alarm_rate",
                "n_examples",
            )
        )
        told[key] = r.choice(DYNAMICS) if key == "dynamics" and r.random() < 0.7 else value(r)
    if r.random() < 0.2:
        told["set"] = r.choice(
            (value(r), {r.choice(("variance", "n_iter", "n_jobs", "resolution", "x", "assignment")): value(r)})
        )
    if r.random() < 0.1:
        told["features"] = r.choice((value(r), [r.choice(NAMES) for _ in range(3)]))
    return as_json(r, told).encode("utf-8", "surrogatepass")


def _row(r, width):
    return [number(r) if r.random() < 0.15 else r.gauss(0.0, 5.0) for _ in range(width)]


def rows(r):
    """Return the body of a request with rows, and its Content-Type."""
    n, width = r.choice((1, 1, 2, 5, 20)), r.choice((1, 2, 2, 2, 2, 3))
    kind = r.choices((JSON, NDJSON, CSV, ARROW), (5, 2, 2, 2))[0]
    if kind == CSV:
        names, rows = grid(r)
        names = ["x", "y", "t"][: len(names)] if r.random() < 0.7 else names
        return "\n".join(",".join(row) for row in [names, *rows]).encode("utf-8", "replace"), kind
    rows = [_row(r, width) for _ in range(n)]
    if r.random() < 0.3:
        rows = [dict(zip("xyz", row, strict=False)) for row in rows]
    if r.random() < 0.1:
        rows[r.randrange(n)] = value(r)
    if kind == ARROW:
        return _arrow(r, n), kind
    if kind == NDJSON:
        return "\n".join(as_json(r, row) for row in rows).encode("utf-8", "surrogatepass"), kind
    body = {"rows": rows}
    for name in ("times", "labels", "cannot_link"):
        if r.random() < 0.1:
            body[name] = (
                value(r) if r.random() < 0.3 else [value(r) if r.random() < 0.2 else r.randrange(9) for _ in range(n)]
            )
    if r.random() < 0.2:
        body["times"] = sorted(r.choice((r.uniform(0, 1e4), 1e300, 5)) for _ in range(n))
    return as_json(r, body).encode("utf-8", "surrogatepass"), kind


def _arrow(r, n):
    kinds = [
        pa.float64(),
        pa.int8(),
        pa.uint64(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("us"),
        pa.float16(),
        pa.large_string(),
    ]
    kinds += [
        pa.timestamp("s"),
        pa.date32(),
        pa.date64(),
        pa.null(),
        pa.list_(pa.float64()),
        pa.binary(),
        pa.decimal128(5),
    ]
    columns = {}
    for name in r.sample(["x", "y", "t", "z"], r.choice((1, 2, 2, 3))):
        kind = pa.float64() if r.random() < 0.7 else r.choice(kinds)
        try:
            columns[name] = pa.array([r.randrange(9) for _ in range(n)]).cast(kind)
        except pa.ArrowException:
            columns[name] = pa.nulls(n, kind)
        if r.random() < 0.1:
            columns[name] = pa.array([r.choice(("red", None)) for _ in range(n)]).dictionary_encode()
    table, sink = pa.table(columns), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=r.choice(("lz4", "zstd")) if r.random() < 0.05 else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def request(r):
    """Return the method, path, query, headers and body of a request."""
    name = (
        r.choice("ab") if r.random() < 0.95 else r.choice(("c", "..", "%2e%2e", "é", "a" * 200, "a b", "", "a/b", "-"))
    )
    path, headers, query, body, method = f"/streams/{name}", {}, [], b"", "GET"
    kinds = "rows", "put", "merge", "rename", "end", "explain", "get", "delete"
    match r.choices(kinds, (54, 12, 4, 5, 1, 6, 16, 2))[0]:
        case "rows":
            method, path = "POST", f"{path}/rows"
            body, headers["content-type"] = rows(r)
            if r.random() < 0.05:
                headers["content-type"] = r.choice(
                    (JSON, CSV, ARROW, "text/csv; charset=utf-16", "", "a" * 5000, "é", "multipart/form-data")
                )
            for key in ("time_column", "label_column", "cannot_link_column", "weight_column"):
                if r.random() < 0.08:
                    query.append((key, r.choice(("t", "x", "y", *NAMES))))
            if r.random() < 0.3:
                query += [
                    ("client", r.choice(("me", "you", "é", "", "a" * 101))),
                    ("sequence", r.choice(("1", str(r.randrange(50)), "-1", "٣", "9" * 30, ""))),
                ]
        case "put":
            method, body = "PUT", settings(r, changed=r.random() < 0.7)
        case "delete":
            method = "DELETE"
        case "merge":
            method, path = "POST", f"{path}/merge"
            body = as_json(
                r, {"tables": r.choice(([r.randrange(4), r.randrange(4)], value(r), [value(r), value(r)]))}
            ).encode("utf-8", "replace")
        case "rename":
            method, path = "POST", f"{path}/rename"
            body = as_json(
                r, {"table": r.choice((r.randrange(4), value(r))), "name": r.choice((*TEXTS, value(r)))}
            ).encode("utf-8", "replace")
        case "end":
            method, path = "POST", f"{path}/end-warmup"
        case "explain":
            method, path = "POST", f"{path}/explain"
            body = as_json(
                r, {"row": r.choice((_row(r, 2), value(r))), "time": r.choice((None, None, number(r), r.choice(TEXTS)))}
            ).encode("utf-8", "replace")
        case _:
            what = (
                "",
                "/tables",
                "/clusters",
                "/timeline",
                "/events",
                "/model",
                "/live",
                f"/tables/{r.choice((0, 1, -1, 'x', 'é', 10**30))}",
            )
            path = r.choice(
                (
                    "/streams",
                    "/metrics",
                    "/health",
                    "/openapi.json",
                    "/static/page.js",
                    "/static/../app.py",
                    "/static/..%2fapp.py",
                    "/nothing",
                    *[path + end for end in what] * 3,
                )
            )
            for key in ("n", "last", "limit", "after"):
                if r.random() < 0.2:
                    query.append((key, r.choice(("1", "2", "0", "-1", "x", "٣", "9" * 30, "1e3", "", "²"))))
            if r.random() < 0.1:
                headers["last-event-id"] = r.choice(("1", "x", "-1", "9" * 30, "²", ""))
            if r.random() < 0.1:
                headers["accept"] = "text/event-stream"
    if r.random() < 0.25:
        body = damage(r, body, tokens=JSON_TOKENS)
    if r.random() < 0.02:
        method = r.choice(("GET", "POST", "PUT", "PATCH", "HEAD", "OPTIONS", "BREW"))
    if r.random() < 0.02:
        headers[r.choice(("content-length", "content-encoding", "host", "origin", "content-type"))] = r.choice(
            ("gzip", "-1", "9" * 30, "x", "²", "http://elsewhere", "\xff")
        )
    return method, path, query, headers, body


def edit(r, members, others=None):
    """Change a header or an array of a model file."""
    others = MEMBERS if others is None else others
    if "header" in members and (len(members) == 1 or r.random() < 0.5):
        with suppress(ValueError, RecursionError):  # it was changed before, and is no JSON any more
            _edit_header(r, members, others)
    elif members:
        _edit_array(r, members, others)
