"""One entry per library: `prepare(threads)` -> (version, make), and `make(op, inputs)` -> (call, to_numpy) or None.

`call()` computes once, into a result that is new each time, and returns when it is there. Each op is written the way
the library's users write it. Imports happen inside, so a process pays for its own library only.
"""

import ctypes
import functools
import operator
import tomllib
from pathlib import Path

import numpy as np

import networks
from cases import CHUNK, EPS, K, MU

HERE = Path(__file__).resolve().parent


def chunks(x):
    """Views of host memory."""
    return x.reshape(-1, CHUNK)


def numpy(_threads):
    """Threads come from OPENBLAS_NUM_THREADS; everything but matmul is one thread in any case."""
    from scipy.special import erf

    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def layernorm(x, gain, bias):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(EPS)) * gain + bias

    energy = lambda x: np.sum(0.5 * K * (x - MU) ** 2)
    ops = {
        "energy": energy,
        "energy_chunked": lambda x: sum(map(energy, chunks(x))),
        "softmax": softmax,
        "layernorm": layernorm,
        "add": operator.add,
        "gelu": lambda x: 0.5 * x * (1.0 + erf(x * np.float32(2**-0.5))),
        "matmul": lambda a, b: a @ b,
        "sum0": lambda x: x.sum(axis=0),
        "sum1": lambda x: x.sum(axis=1),
        "argmax": lambda x: x.argmax(),
        "transpose": lambda x: np.ascontiguousarray(x.T),
        "sort": np.sort,
        "cumsum0": lambda x: x.cumsum(0),
        "cumsum1": lambda x: x.cumsum(1),
        "embedding": lambda table, rows: table.take(rows, axis=0),
    }
    return np.__version__, lambda op, inputs: (functools.partial(ops[op], *inputs), np.asarray) if op in ops else None


def _torch(threads, compiled):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    energy = lambda x: (0.5 * K * (x - MU) ** 2).sum()
    conv = lambda x, w, stride: F.conv2d(x, w, None, stride, w.shape[2] // 2, 1, x.shape[1] // w.shape[1])
    ops = {
        "energy": energy,
        "softmax": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x, gain, bias: F.layer_norm(x, gain.shape, gain, bias, EPS),
        "gelu": F.gelu,
    }
    if compiled:
        ops = {op: torch.compile(f, dynamic=False) for op, f in ops.items()}
    else:
        ops |= {
            "add": operator.add,
            "matmul": lambda a, b: a @ b,
            "sum0": lambda x: x.sum(0),
            "sum1": lambda x: x.sum(1),
            "argmax": lambda x: x.argmax(),
            "transpose": lambda x: x.T.contiguous(),
            "sort": lambda x: x.sort().values,
            "cumsum0": lambda x: x.cumsum(0),
            "cumsum1": lambda x: x.cumsum(1),
            "matmul_bf16": lambda a, b: a @ b,
            "matmul_int8": torch._int_mm,
            "embedding": lambda table, rows: F.embedding(rows, table),
            "conv": lambda x, w: conv(x, w, 1),
            "conv_stride2": lambda x, w: conv(x, w, 2),
            "maxpool": lambda x: F.max_pool2d(x, 3, 2, 1),
            "attention": F.scaled_dot_product_attention,
            "attention_causal": functools.partial(F.scaled_dot_product_attention, is_causal=True),
        }

    def make(op, inputs):
        if op in networks.OPS:
            return networks.torch(op, inputs, compiled)
        if op == "energy_chunked":
            of = ops["energy"]
            return lambda: sum(of(torch.from_numpy(x)) for x in chunks(inputs[0])), lambda y: y.numpy()
        if op not in ops:
            return None
        tensors = [torch.from_numpy(x) for x in inputs]
        if op == "matmul_bf16":
            tensors = [x.bfloat16() for x in tensors]
        return functools.partial(ops[op], *tensors), lambda y: (y.float() if y.dtype == torch.bfloat16 else y).numpy()

    return torch.__version__.split("+")[0], make


def torch(threads):
    """Eager, on the CPU."""
    return _torch(threads, compiled=False)


def torch_compile(threads):
    """torch.compile (inductor, C++), for the cases that it can fuse."""
    return _torch(threads, compiled=True)


def jax(_threads):
    """jit; the size of its pool follows the process's affinity."""
    import jax
    import jax.numpy as jnp

    def layernorm(x, gain, bias):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + EPS) * gain + bias

    def attention(q, k, v, causal):
        """The library's layout is [positions, heads, width]."""
        q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(0, 1)

    def conv(x, w, stride):
        """Groups as large as the weight says."""
        sides, groups = [(w.shape[2] // 2,) * 2] * 2, x.shape[1] // w.shape[1]
        return jax.lax.conv_general_dilated(x, w, (stride, stride), sides, feature_group_count=groups)

    energy = lambda x: jnp.sum(0.5 * K * (x - MU) ** 2)
    windows = (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
    ops = {
        "energy": energy,
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "layernorm": layernorm,
        "add": lambda a, b: a + b,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "matmul": lambda a, b: a @ b,
        "sum0": lambda x: x.sum(0),
        "sum1": lambda x: x.sum(1),
        "argmax": lambda x: jnp.argmax(x),
        "transpose": lambda x: x.T.copy(),
        "sort": jnp.sort,
        "cumsum0": lambda x: jnp.cumsum(x, 0),
        "cumsum1": lambda x: jnp.cumsum(x, 1),
        "matmul_bf16": lambda a, b: a @ b,
        "matmul_int8": lambda a, b: jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
        "embedding": lambda table, rows: jnp.take(table, rows, axis=0, mode="clip"),
        "conv": lambda x, w: conv(x, w, 1),
        "conv_stride2": lambda x, w: conv(x, w, 2),
        "maxpool": lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *windows),
        "attention": lambda q, k, v: attention(q, k, v, False),
        "attention_causal": lambda q, k, v: attention(q, k, v, True),
    }

    def make(op, inputs):
        if op in networks.OPS:
            return networks.jax(op, inputs)
        if op == "energy_chunked":
            add = jax.jit(lambda total, x: total + energy(x))
            total = lambda: functools.reduce(add, chunks(inputs[0]), jnp.float32(0))
            return lambda: total().block_until_ready(), np.asarray
        dtype = jnp.bfloat16 if op == "matmul_bf16" else None
        f, arrays = jax.jit(ops[op]), [jnp.asarray(x, dtype) for x in inputs]
        return lambda: f(*arrays).block_until_ready(), lambda y: np.asarray(y, np.float32 if dtype else None)

    return jax.__version__, make


def onnxruntime(threads):
    """A model per case; inputs and results are OrtValues, so nothing is copied to or from NumPy."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    def scalar(name, value):
        return helper.make_tensor(name, TensorProto.FLOAT, [], [value])

    def axes(value):
        return helper.make_tensor("axes", TensorProto.INT64, [1], [value])

    def attention(*mask):
        """Scores, perhaps with something that is added, and their weights."""
        return [
            node("Transpose", ["x1"], ["t"], perm=[0, 2, 1]),
            node("MatMul", ["x0", "t"], ["s"]),
            node("Mul", ["s", "scale"], ["m"]),
            *mask,
            node("Softmax", ["masked" if mask else "m"], ["w"], axis=-1),
            node("MatMul", ["w", "x2"], ["y"]),
        ]

    def windows(kind, inputs, taps, stride, **more):
        return node(kind, inputs, ["y"], kernel_shape=[taps] * 2, strides=[stride] * 2, pads=[taps // 2] * 4, **more)

    def conv(x, w, stride):
        """The weight is a constant, as in a network: it is packed once."""
        nodes = [windows("Conv", ["x0", "x1"], w.shape[2], stride, group=x.shape[1] // w.shape[1])]
        return nodes, [numpy_helper.from_array(w, "x1")]

    def causal(q, _k, _v):
        mask = np.where(np.tri(q.shape[1], dtype=bool), 0, -np.inf).astype(np.float32)
        return attention(node("Add", ["m", "mask"], ["masked"])), [scalar("scale", 0.125), numpy_helper.from_array(mask, "mask")]

    node = helper.make_node
    # op -> nodes, constants, perhaps by the inputs; inputs are x0, x1, …, unless constants have that name, the result is y
    by_inputs = {
        "conv": lambda x, w: conv(x, w, 1),
        "conv_stride2": lambda x, w: conv(x, w, 2),
        "attention_causal": causal,
    }
    ops = {
        "energy": (
            [
                node("Sub", ["x0", "mu"], ["d"]),
                node("Mul", ["d", "d"], ["d2"]),
                node("Mul", ["d2", "k"], ["e"]),
                node("ReduceSum", ["e"], ["y"], keepdims=0),
            ],
            [scalar("mu", MU), scalar("k", 0.5 * K)],
        ),
        "softmax": ([node("Softmax", ["x0"], ["y"], axis=-1)], []),
        "layernorm": ([node("LayerNormalization", ["x0", "x1", "x2"], ["y"], axis=-1, epsilon=EPS)], []),
        "add": ([node("Add", ["x0", "x1"], ["y"])], []),
        "gelu": ([node("Gelu", ["x0"], ["y"])], []),
        "matmul": ([node("MatMul", ["x0", "x1"], ["y"])], []),
        "sum0": ([node("ReduceSum", ["x0", "axes"], ["y"], keepdims=0)], [axes(0)]),
        "sum1": ([node("ReduceSum", ["x0", "axes"], ["y"], keepdims=0)], [axes(1)]),
        "argmax": ([node("ArgMax", ["x0"], ["y"], axis=0, keepdims=0)], []),
        "transpose": ([node("Transpose", ["x0"], ["y"])], []),
        "attention": (attention(), [scalar("scale", 0.125)]),
        "matmul_int8": ([node("MatMulInteger", ["x0", "x1"], ["y"])], []),
        "embedding": ([node("Gather", ["x0", "x1"], ["y"])], []),
        "maxpool": ([windows("MaxPool", ["x0"], 3, 2)], []),
        "cumsum0": ([node("CumSum", ["x0", "axes"], ["y"])], [axes(0)]),
        "cumsum1": ([node("CumSum", ["x0", "axes"], ["y"])], [axes(1)]),
    }

    def new_session(graph):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    value = ort.OrtValue.ortvalue_from_numpy
    to_numpy = lambda y: y.numpy()

    def session_of(graph, inputs):
        session, feeds = new_session(graph), {f"x{i}": value(x) for i, x in enumerate(inputs)}
        return lambda: session.run_with_ort_values(["y"], feeds)[0], to_numpy

    def chunked(x):
        """Values of the host's own memory; their energies are added in Python."""
        session = new_session(graph_of("energy", [chunks(x)[0]], *ops["energy"]))
        energy = lambda chunk: session.run_with_ort_values(["y"], {"x0": value(chunk)})[0].numpy()
        return lambda: sum(map(energy, chunks(x))), np.asarray

    def graph_of(op, inputs, nodes, constants):
        result = {"argmax": TensorProto.INT64, "matmul_int8": TensorProto.INT32}.get(op, TensorProto.FLOAT)
        types = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in inputs]
        values = [helper.make_tensor_value_info(f"x{i}", of, x.shape) for i, (of, x) in enumerate(zip(types, inputs))]
        return helper.make_graph(nodes, op, values, [helper.make_tensor_value_info("y", result, None)], constants)

    def make(op, inputs):
        if op in networks.OPS:
            return networks.onnxruntime(op, inputs, session_of)
        if op == "energy_chunked":
            return chunked(*inputs)
        if op not in ops and op not in by_inputs:
            return None
        nodes, constants = ops[op] if op in ops else by_inputs[op](*inputs)
        inputs = [x for i, x in enumerate(inputs) if f"x{i}" not in {constant.name for constant in constants}]
        return session_of(graph_of(op, inputs, nodes, constants), inputs)

    return ort.__version__, make


class _Work:
    """What rust/ has prepared: `many` calls cost no more of Python than one."""

    def __init__(self, peers, work):
        self.peers, self.work = peers, ctypes.c_void_p(work)

    def __del__(self):
        self.peers.finish(self.work)

    def __call__(self):
        self.many(1)
        return self

    def many(self, times):
        self.peers.run(self.work, ctypes.c_size_t(times))

    def read(self):
        sizes = (ctypes.c_size_t * 8)()
        rank = self.peers.read(self.work, sizes, None)
        values = np.empty(sizes[:rank], np.float32)
        self.peers.read(self.work, sizes, values.ctypes.data_as(ctypes.c_void_p))
        return values


def _crate(name, package):
    """A library behind the C interface of rust/. Threads come from RAYON_NUM_THREADS."""
    peers = ctypes.CDLL(str(HERE / ".venv" / "rust" / "release" / "libpeers.so"))
    peers.prepare.restype = ctypes.c_void_p
    peers.read.restype = ctypes.c_size_t
    packages = tomllib.loads((HERE / "rust" / "Cargo.lock").read_text())["package"]

    class Array(ctypes.Structure):
        _fields_ = [("values", ctypes.c_void_p), ("sizes", ctypes.POINTER(ctypes.c_size_t)), ("rank", ctypes.c_size_t)]

    def make(op, inputs):
        values = inputs + (list(networks.OPS[op][0]().values()) if op in networks.OPS else [])
        values = [x.astype(np.float32, copy=False) for x in values]  # indices and bytes fit
        arrays = [Array(x.ctypes.data, (ctypes.c_size_t * x.ndim)(*x.shape), x.ndim) for x in values]
        work = peers.prepare(name.encode(), op.encode(), (Array * len(arrays))(*arrays), ctypes.c_size_t(len(arrays)))
        return (_Work(peers, work), _Work.read) if work else None

    return next(p["version"] for p in packages if p["name"] == package), make


LIBRARIES = {
    "numpy": numpy,
    "torch": torch,
    "torch.compile": torch_compile,
    "jax": jax,
    "onnxruntime": onnxruntime,
    "candle": lambda _threads: _crate("candle", "candle-core"),
    "burn": lambda _threads: _crate("burn", "burn"),
}
