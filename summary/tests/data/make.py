"""Writes the event file that `tests/stored.rs` reads, with the protocol buffers of TensorBoard 2.21: `python make.py FILE`."""

import sys

import numpy
from tensorboard.compat.proto import event_pb2, graph_pb2, summary_pb2
from tensorboard.plugins.hparams import summary_v2
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

node = graph_pb2.GraphDef()
product = node.node.add(name="Default/dense/matmul", op="matmul", input=["x", "w"], device="cpu:0")
shape = product.attr["_output_shapes"].list.shape.add()
shape.dim.add(size=2)
shape.dim.add(size=3)
product.attr["place"].s = b"net.rs:7"
node.versions.producer = 22

histogram = summary_pb2.HistogramProto(
    min=-1.5, max=2.5, num=4, sum=2.0, sum_squares=9.0, bucket_limit=[-0.5, 2.5], bucket=[1, 3]
)
image = summary_pb2.Summary.Image(height=2, width=3, colorspace=1, encoded_image_string=b"\x89PNG")
tensor = tensor_util.make_tensor_proto(numpy.array([[1, 2], [3, 4]], dtype=numpy.int32))
hparams = summary_v2.hparams_pb({"rate": 0.5, "name": "a", "on": True}, trial_id="1", start_time_secs=3.0)
values = summary_pb2.Summary(
    value=[
        summary_pb2.Summary.Value(tag="loss", simple_value=0.25),
        summary_pb2.Summary.Value(tag="weights", histo=histogram),
        summary_pb2.Summary.Value(tag="input", image=image),
        summary_pb2.Summary.Value(tag="numbers", tensor=tensor),
    ]
)
events = [
    event_pb2.Event(wall_time=1.5, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=2.5, step=1, graph_def=node.SerializeToString()),
    event_pb2.Event(wall_time=3.5, step=10, summary=values),
    event_pb2.Event(wall_time=4.5, step=11, summary=hparams),
]
with open(sys.argv[1], "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
