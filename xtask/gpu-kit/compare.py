"""The figures of `device` as PyTorch reaches them on the same device: one line of JSON a case.

usage: compare.py [cuda|cpu] [--small]. Without PyTorch, or without the device in it, one line says so.
"""

import json
import sys
import time


def say(case, value, unit):
    print(json.dumps({"case": case, "value": value, "unit": unit}), flush=True)


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    small = "--small" in sys.argv
    try:
        import torch
    except ImportError as error:
        print(json.dumps({"case": "PyTorch", "error": f"not installed: {error}"}))
        return
    if target == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"case": "PyTorch", "error": "finds no CUDA device"}))
        return
    device = torch.device(target)
    wait = torch.cuda.synchronize if target == "cuda" else lambda: None
    # As much work as Rust's side does by default: all cores.

    def seconds(run):
        best, begin, rounds = float("inf"), time.perf_counter(), 0
        while rounds < 7 or time.perf_counter() - begin < 0.5:
            start = time.perf_counter()
            run()
            wait()
            if rounds >= 2:
                best = min(best, time.perf_counter() - start)
            rounds += 1
        return best

    def attempt(case, run):
        try:
            run()
        except Exception as error:  # noqa: BLE001  one case fails, the others go on
            print(json.dumps({"case": case, "error": str(error).splitlines()[0] if str(error) else repr(error)}))

    def compiled(function):
        return torch.compile(function) if target == "cuda" else function

    def overheads():
        a, b = torch.ones(1, device=device), torch.ones(1, device=device)
        for _ in range(1000):
            a + b
        wait()
        start = time.perf_counter()
        for _ in range(2000):
            a + b
        say("eager a + b, one element", (time.perf_counter() - start) / 2000 * 1e9, "ns")

    def copies():
        count = (8 << 20) if small else (512 << 20)
        a, b = (torch.empty(count, dtype=torch.uint8, device=device) for _ in range(2))
        say("copy on the device, read and write", 2 * count / seconds(lambda: b.copy_(a)) / 1e9, "GB/s")
        if target == "cuda":
            host = torch.empty(count, dtype=torch.uint8)
            pinned = host.pin_memory()
            for name, memory in (("pageable", host), ("pinned", pinned)):
                for way, to, source in (("to", a, memory), ("from", memory, a)):
                    took = seconds(lambda to=to, source=source: to.copy_(source, non_blocking=True))
                    say(f"copy {way} the device, {name}", count / took / 1e9, "GB/s")

    def kernels():
        n, rows = (1_000_000, 512) if small else (100_000_000, 65_536)
        a, b, c = (torch.rand(n, device=device) for _ in range(3))
        run = compiled(lambda a, b, c: torch.relu(a * b + c))
        say("map relu(a * b + c)", 16 * n / seconds(lambda: run(a, b, c)) / 1e9, "GB/s")
        gelu = compiled(lambda x: torch.nn.functional.gelu(x * 0.5 + 1.0, approximate="tanh"))
        for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            narrow = a.to(dtype)
            say(f"map gelu(x / 2 + 1) {name}", 4 * n / seconds(lambda narrow=narrow: gelu(narrow)) / 1e9, "GB/s")
        say("sum of all", 4 * n / seconds(lambda: a.sum()) / 1e9, "GB/s")
        x = torch.randn(rows, 1024, device=device)
        soft = compiled(lambda x: torch.softmax(x, -1))
        say("softmax of rows of 1024", 8 * x.numel() / seconds(lambda: soft(x)) / 1e9, "GB/s")
        norm = compiled(lambda x: torch.nn.functional.layer_norm(x, (1024,)))
        say("layer norm of rows of 1024", 8 * x.numel() / seconds(lambda: norm(x)) / 1e9, "GB/s")

    def attentions():
        heads, positions = (2, 256) if small else (32, 4096)
        attend = torch.nn.functional.scaled_dot_product_attention
        for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
            q, k, v = (torch.randn(1, heads, positions, 64, device=device).to(dtype) for _ in range(3))
            for mode, causal in (("", False), (" causal", True)):
                took = seconds(lambda q=q, k=k, v=v, causal=causal: attend(q, k, v, is_causal=causal))
                flops = 4 * 64 * heads * positions**2 * (0.5 if causal else 1)
                say(f"attention {positions}{mode} {name}", flops / took / 1e12, "TFLOP/s")

    def products():
        for n in (256,) if small else (4096, 8192):
            for name, dtype, tf32 in (
                ("f32", torch.float32, False),
                ("tf32", torch.float32, True),
                ("f16", torch.float16, False),
                ("bf16", torch.bfloat16, False),
            ):
                if target != "cuda" and name in ("tf32", "f16"):
                    continue
                torch.backends.cuda.matmul.allow_tf32 = tf32
                a, b = (torch.randn(n, n, device=device, dtype=torch.float32).to(dtype) for _ in range(2))
                say(f"matmul {n} {name}", 2 * n**3 / seconds(lambda a=a, b=b: a @ b) / 1e12, "TFLOP/s")

    def convolutions():
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        for samples, channels, side in ((1, 8, 8),) if small else ((32, 64, 56), (32, 256, 14)):
            flops = 2 * samples * side**2 * channels**2 * 9
            for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
                x = torch.randn(samples, channels, side, side, device=device).to(dtype)
                w = torch.randn(channels, channels, 3, 3, device=device).to(dtype)
                took = []
                for order in (torch.contiguous_format, torch.channels_last):
                    a, b = x.to(memory_format=order), w.to(memory_format=order)
                    took.append(seconds(lambda a=a, b=b: torch.nn.functional.conv2d(a, b, padding=1)))
                say(f"convolution {samples}x{channels}x{side} {name}", flops / min(took) / 1e12, "TFLOP/s")

    def whole_networks():
        """In f32 as it is, eagerly and, without gradients, as a graph of the device."""
        import networks
        import numpy

        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        shapes = {
            "mlp_step_b128": (128, 784),
            "lenet5_step_b64": (64, 1, 28, 28),
            "resnet18_b8": (8, 3, 224, 224),
            "encoder6_b8": (8, 128, 384),
        }
        for name in ("mlp_step_b128",) if small else shapes:
            op = name[: name.rindex("_b")]
            x = numpy.random.default_rng(0).uniform(-1, 1, shapes[name]).astype(numpy.float32)
            run, _ = networks.torch(op, [x], False, target)
            took = seconds(run)
            if target == "cuda" and not op.endswith("_step"):
                graph = torch.cuda.CUDAGraph()
                with torch.inference_mode(), torch.cuda.graph(graph):
                    run()
                took = min(took, seconds(graph.replay))
            say(name, 1e3 * took, "ms")

    def narrow_products():
        if target != "cuda" or torch.cuda.get_device_capability() < (8, 9):
            return
        one = torch.ones((), device=device)
        for n in (256,) if small else (4096, 8192):
            a, b = (torch.randn(n, n, device=device).to(torch.float8_e4m3fn) for _ in range(2))
            product = lambda a=a, b=b: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.float32)  # noqa: E731
            say(f"matmul {n} f8e4m3", 2 * n**3 / seconds(product) / 1e12, "TFLOP/s")

    for case in (overheads, copies, kernels, attentions, convolutions, products, whole_networks, narrow_products):
        attempt(case.__name__, case)


if __name__ == "__main__":
    main()
