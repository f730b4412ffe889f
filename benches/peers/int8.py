#!/usr/bin/env python3
"""Networks of 8-bit integers: ONNX Runtime's beside ours, from the same weights and the same inputs.

`int8.py prepare DIR` writes weights, inputs and f32 outputs (NumPy) and ONNX models. `int8.py time DIR THREADS SECONDS` prints ONNX Runtime's
rows. `int8.py run DIR BINARY` does both and lets our binary `int8` take turns with it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import networks

SHAPES = {"resnet18": (1, 3, 224, 224), "encoder6": (1, 128, 384)}
SEEN, TESTED = 4, 20  # inputs that ranges are taken from, and others that errors are taken of


def onnx_model(op):
    """The network in f32, its weights as constants."""
    from onnx import TensorProto, helper, numpy_helper

    parameters, forward = networks.OPS[op]
    f = networks._Onnx(helper, numpy_helper)
    result = forward(f, parameters(), "x0")
    f.nodes.append(helper.make_node("Identity", [result], ["y"]))
    for at, node in enumerate(f.nodes):
        node.name = f"{node.op_type}_{at}"
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(f.nodes, op, [value("x0", SHAPES[op])], [value("y", None)], f.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def prepare(folder):
    import logging

    import onnx
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.disable(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    for op, shape in SHAPES.items():
        rng = np.random.default_rng(7)
        inputs = [rng.standard_normal(shape, dtype=np.float32) for _ in range(SEEN + TESTED)]
        (folder / op).mkdir(exist_ok=True)
        for name, array in (networks.OPS[op][0]() | {"inputs": np.stack(inputs)}).items():
            np.save(folder / op / f"{name}.npy", array)
        plain, ready = folder / f"{op}_f32.onnx", folder / f"{op}_ready.onnx"
        onnx.save(onnx_model(op), plain)
        # folds batch norm into the convolutions in front of it, as quantize_static asks for
        quant_pre_process(plain, ready, skip_symbolic_shape=True, skip_optimization=op != "resnet18")

        class Reader(q.CalibrationDataReader):
            def __init__(self):
                self.left = iter(inputs[:SEEN])

            def get_next(self):
                x = next(self.left, None)
                return None if x is None else {"x0": x}

        # attention stays f32, and of the encoder dense layers alone become integers, as ours
        kinds = None if op == "resnet18" else ["MatMul"]
        graph = onnx.load(ready).graph
        constants = {constant.name for constant in graph.initializer}
        products = [node for node in graph.node if node.op_type == "MatMul"]
        attention = [node.name for node in products if not constants & set(node.input)]
        assert all(node.name for node in products), [node.name for node in products]
        for name, form in (("qdq", q.QuantFormat.QDQ), ("qoperator", q.QuantFormat.QOperator)):
            q.quantize_static(
                ready,
                folder / f"{op}_{name}.onnx",
                Reader(),
                quant_format=form,
                per_channel=True,
                activation_type=q.QuantType.QUInt8,
                weight_type=q.QuantType.QInt8,
                op_types_to_quantize=kinds,
                nodes_to_exclude=attention,
            )
        if op != "resnet18":
            q.quantize_dynamic(
                ready,
                folder / f"{op}_dynamic.onnx",
                op_types_to_quantize=["MatMul"],
                per_channel=True,
                weight_type=q.QuantType.QInt8,
                nodes_to_exclude=attention,
            )


def session(path, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def medians(call, seconds):
    call()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 4:
        call()
    taken, start = [], time.perf_counter()
    while len(taken) < 9 or time.perf_counter() - start < seconds:
        t = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - t) * 1e-6)
    return statistics.median(taken)


def errors(answers, wanted):
    """Relative error in the 2-norm over all tested inputs, and the share of equal greatest elements along the last axis."""
    answers, wanted = np.stack(answers), np.stack(wanted)
    error = np.linalg.norm(answers - wanted) / np.linalg.norm(wanted)
    return {"error": float(error), "top1": float((answers.argmax(-1) == wanted.argmax(-1)).mean())}


def rows(folder, threads, seconds):
    import onnxruntime as ort

    for op in SHAPES:
        inputs = np.load(folder / op / "inputs.npy")
        wanted = None
        for form in ("f32", "qdq", "qoperator", "dynamic"):
            path = folder / f"{op}_{form}.onnx"
            if not path.exists():
                continue
            run = session(path, threads)
            answers = [run.run(["y"], {"x0": x})[0] for x in inputs[SEEN:]]
            wanted = answers if wanted is None else wanted
            feed = {"x0": ort.OrtValue.ortvalue_from_numpy(inputs[SEEN])}
            ms = medians(lambda: run.run_with_ort_values(["y"], feed), seconds)
            yield {"library": "onnxruntime", "case": op, "form": form, "threads": threads, "ms": ms} | errors(answers, wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "time", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("rest", nargs="*", help="time: THREADS SECONDS; run: BINARY")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of repetition for each row of a turn")
    options = parser.parse_args()
    folder = options.folder
    if options.what == "prepare":
        return prepare(folder)
    if options.what == "time":
        return print(json.dumps(list(rows(folder, int(options.rest[0]), float(options.rest[1])))))
    if not (folder / "encoder6_dynamic.onnx").exists():
        prepare(folder)
    found = {}
    for _ in range(options.turns):
        for threads in (1, 2):
            cpus = sorted(os.sched_getaffinity(0))[:threads]
            ours = [options.rest[0], str(folder), str(threads), str(options.seconds)]
            theirs = [sys.executable, __file__, "time", str(folder), str(threads), str(options.seconds)]
            for command in (ours, theirs):
                pin = lambda: os.sched_setaffinity(0, cpus)
                done = subprocess.run(command, preexec_fn=pin, stdout=subprocess.PIPE, text=True, check=True)
                for row in json.loads(done.stdout):
                    key = row["case"], row["threads"], row["library"], row["form"]
                    found.setdefault(key, []).append(row)
    print("| case | threads | library | form | ms, median of turns | turns | error | top 1 |\n|---|---|---|---|---|---|---|---|")
    for key, taken in sorted(found.items()):
        times = [row["ms"] for row in taken]
        case, threads, library, form = key
        turns = ", ".join(f"{ms:.2f}" for ms in times)
        accuracy = "" if form == "f32" else f"{100 * taken[0]['error']:.2f} % | {100 * taken[0]['top1']:.0f} %"
        print(f"| {case} | {threads} | {library} | {form} | {statistics.median(times):.2f} | {turns} | {accuracy or ' | '} |")


main()
