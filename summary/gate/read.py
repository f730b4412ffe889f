"""Reads what `thalweg-nn` wrote with TensorBoard's own reader and compares it with what the training did.

`python read.py RUN STEPS`: RUN is the folder of the example `summaries`, STEPS the number of its steps.
"""

import glob
import io
import json
import os
import shutil
import struct
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.compat.proto import graph_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

run, steps = sys.argv[1], int(sys.argv[2])
checks = 0


def check(fact, what):
    global checks
    checks += 1
    if not fact:
        sys.exit(f"error: {what}")


def load(path):
    reader = event_accumulator.EventAccumulator(path, size_guidance={key: 0 for key in event_accumulator.DEFAULT_SIZE_GUIDANCE})
    reader.Reload()
    return reader


files = sorted(glob.glob(f"{run}/events.out.tfevents.*"))
check(len(files) >= 12, f"{len(files)} files, at least 12 are wanted")
check(all(file.endswith(f".{number:06}_MS") for number, file in enumerate(files, 1)), f"names: {files}")

reader = load(run)
tags = reader.Tags()
collected = [1] + list(range(10, steps + 1, 10))
distance = steps // 19
tensors = [1] + [distance * at for at in range(1, 20)]

for tag in ["loss/auto", "largest_score"]:
    seen = [event.step for event in reader.Scalars(tag)]
    check(seen == collected, f"{tag}: steps {seen}")
check(all(numpy.isfinite(event.value) for event in reader.Scalars("loss/auto")), "a loss is no number")
check(reader.Scalars("loss/auto")[-1].value < reader.Scalars("loss/auto")[0].value, "the loss did not fall")
check(len(reader.Scalars("eval/loss")) == steps // 20, "a figure for each epoch")

histograms = ["features", "conv.weight/auto", "conv.bias/auto", "head.weight/auto", "head.bias/auto"]
check(sorted(tags["histograms"]) == sorted(histograms), f"histograms: {tags['histograms']}")
for tag in histograms:
    events = reader.Histograms(tag)
    check([event.step for event in events] == collected, f"{tag}: steps")
    for value in (event.histogram_value for event in events):
        check(sum(value.bucket) == value.num, f"{tag}: counts")
        check(value.bucket_limit[-1] == value.max and value.min <= value.max, f"{tag}: limits")
size = {"features": 8 * 4 * 36, "conv.weight/auto": 36, "head.weight/auto": 288, "conv.bias/auto": 4, "head.bias/auto": 2}
for tag, count in size.items():
    check(reader.Histograms(tag)[0].histogram_value.num == count, f"{tag}: {count} values")

events = reader.Images("input_data/auto")
check([event.step for event in events] == collected, "images: steps")
check((events[0].width, events[0].height) == (32, 16), "eight pictures of 8 by 8, four in a row")
from PIL import Image  # noqa: E402

picture = Image.open(io.BytesIO(events[0].encoded_image_string))
picture.load()
check((picture.size, picture.mode) == ((32, 16), "L"), f"{picture}")
check(numpy.array(picture).max() > 200, "a bar is bright")

events = reader.Tensors("mean_features")
check([event.step for event in events] == tensors, f"tensors: steps {[event.step for event in events]}")
from tensorboard.util import tensor_util  # noqa: E402

for event in events:
    array = tensor_util.make_ndarray(event.tensor_proto)
    (exported,) = glob.glob(f"{run}/export_*/tensor/mean_features_{event.step}.npy")
    check(array.shape == (4,) and array.dtype == numpy.float32, "a tensor's shape")
    check(numpy.array_equal(numpy.load(exported), array), "the file of NumPy has the same elements")

graph = reader.Graph()
names = [node.name for node in graph.node]
check(len(set(names)) == len(names) > 50, f"{len(names)} names of nodes")
known = set(names)
check(all(name in known for node in graph.node for name in node.input), "inputs are nodes")
for part in ["Default/conv/", "Default/head/", "Default/loss/", "Gradients/Default/", "Update/"]:
    check(any(name.startswith(part) for name in names), f"{part} is in the graph")
check(any(name == "Default/conv/weight" for name in names), "parameters are in the graph")

meta = reader.SummaryMetadata("_hparams_/session_start_info")
check(meta.plugin_data.plugin_name == "hparams", "hyperparameters")
start = plugin_data_pb2.HParamsPluginData.FromString(reader.PluginTagToContent("hparams")["_hparams_/session_start_info"])
values = start.session_start_info.hparams
check(values["learning_rate"].number_value == 1e-3, "the learning rate")
check(values["optimizer"].string_value.endswith("Adam"), f"the optimizer: {values['optimizer']}")
check(values["batch_size"].number_value == 8, "the batch")
end = plugin_data_pb2.HParamsPluginData.FromString(reader.PluginTagToContent("hparams")["_hparams_/session_end_info"])
check(end.session_end_info.status == 1, "the run was a success")
lineage = json.load(open(f"{run}/lineage.json"))
check(lineage["train"]["steps_done"] == steps and lineage["train"]["ended"], f"{lineage}")
check(lineage["train"]["parameters"] == 36 + 4 + 288 + 2, "parameters")
check(set(lineage["eval"]["figures"]) == {"accuracy", "loss"}, "figures")
check([part["op"] for part in lineage["dataset_graph"]] == ["Samples", "Shuffle", "Batch", "Prefetch"], "data")


# What TensorBoard's own page is given: its loader makes tensors of texts of images, so the files need not have these.
shown = {}
for file in files:
    for event in event_file_loader.EventFileLoader(file).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "images":
                shown.setdefault(value.tag, []).append((event.step, list(value.tensor.string_val)))
check(sorted(shown) == sorted(tags["images"]), f"images of the page: {sorted(shown)}")
for tag, seen in shown.items():
    read = [(event.step, [b"%d" % event.width, b"%d" % event.height, event.encoded_image_string]) for event in reader.Images(tag)]
    check(seen == read, f"{tag}: images of the page")


def records(path):
    """What TensorBoard reads of one file."""
    return list(event_file_loader.RawEventFileLoader(path).Load())


whole = records(files[0])
with tempfile.TemporaryDirectory() as folder:
    for cut in [1, 7, 13, 40]:
        path = os.path.join(folder, os.path.basename(files[0]))
        shutil.copy(files[0], path)
        os.truncate(path, os.path.getsize(files[0]) - cut)
        lost = 16 + len(whole[-1])
        check(cut <= lost, "the last record is longer than the cut")
        check(records(path) == whole[:-1], f"cut by {cut} bytes: all but the last record")

# Framing, read by the definition.
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow  # noqa: E402

for file in files:
    data, at = open(file, "rb").read(), 0
    while at < len(data):
        length, sum = struct.unpack_from("<QI", data, at)
        check(sum == pywrap_tensorflow.masked_crc32c(data[at : at + 8]), "the checksum of a length")
        content = data[at + 12 : at + 12 + length]
        (sum,) = struct.unpack_from("<I", data, at + 12 + length)
        check(sum == pywrap_tensorflow.masked_crc32c(content), "the checksum of a record")
        at += 16 + length
print(f"{checks} checks of {len(files)} files passed")
