"""Exports a spread of real architectures from PyTorch, with random weights, as ONNX test cases.
usage: python export_models.py OUT [NAME ...]
       python export_models.py --small OUT [NAME ...]

Needs torch, torchvision, transformers and onnxscript, unlike `make test` and `make demo`.
Each case is OUT/NAME__EXPORTER (torchscript or dynamo) with ONNX Runtime's outputs as expected
values; `heddle test OUT` runs them. With --small, the small programs of `exported/` (one for each
habit of exporters; tests/models/exported holds them), with the frameworks' own results. Those of
other frameworks than torch need `pip install tensorflow-cpu tf2onnx jax jax2onnx scikit-learn
skl2onnx` as well; the files were written with torch 2.15, tensorflow-cpu 2.21 with Keras 3.15 and
tf2onnx 1.17, jax 0.10 and jax2onnx 0.17, scikit-learn 1.9 and skl2onnx 1.20. A program whose
framework is missing is named and left out."""
import argparse
import contextlib
import io
import logging
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from exported.write import write_small
from onnx_case import write_case

OPSET = {"torchscript": 17, "dynamo": 18}
TOLERANCE = (1e-3, 1e-4)  # ONNX Runtime's own distance from exact arithmetic in deep networks


class Wrapped(nn.Module):
    """Calls a model by keyword and returns plain tensors."""

    def __init__(self, model, names, pick):
        super().__init__()
        self.model, self.names, self.pick = model, names, pick

    def forward(self, *args):
        return self.pick(self.model(**dict(zip(self.names, args)), **FIXED))


FIXED = {"use_cache": False, "return_dict": True}


def images(size):
    """A batch of two pictures."""
    return (torch.rand(2, 3, size, size),)


def vision():
    """name -> (module, inputs, dynamic axes) of torchvision's networks."""
    import torchvision.models as tv
    from torchvision.models import convnext, segmentation, swin_transformer, vision_transformer
    for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "densenet121", "squeezenet1_1",
                 "efficientnet_b0", "shufflenet_v2_x1_0", "mnasnet0_5", "regnet_y_400mf"):
        yield name, partial(getattr(tv, name), weights=None), images(64), {0: "N"}
    for name in ("googlenet", "inception_v3"):
        make = partial(getattr(tv, name), weights=None, init_weights=False)
        yield name, make, images(96), {0: "N"}
    yield "vit", partial(vision_transformer.VisionTransformer, 32, 8, 2, 4, 32, 64), images(32), \
        {0: "N"}
    yield "swin", partial(swin_transformer.SwinTransformer, [4, 4], 16, [2, 2], [2, 4], [4, 4]), \
        images(32), {0: "N"}
    block = convnext.CNBlockConfig
    yield "convnext", partial(convnext.ConvNeXt, [block(16, 32, 1), block(32, None, 1)]), \
        images(32), {0: "N"}
    network = segmentation.lraspp_mobilenet_v3_large
    yield "lraspp", lambda: Output(network(weights=None, weights_backbone=None)), images(64), \
        {0: "N"}


class Output(nn.Module):
    """The entry `out` of a segmentation network's dict."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)["out"]


def language():
    """Small configurations of transformers."""
    import transformers as tf
    ids = torch.randint(5, 90, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    tiny = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 48, "max_position_embeddings": 64, "attn_implementation": "eager"}
    axes = {0: "N", 1: "T"}
    pair = ["input_ids", "attention_mask"]

    def hidden(out):
        return out.last_hidden_state

    for name in ("Bert", "Roberta", "Electra", "Llama", "Mistral", "Qwen2", "GPTNeoX"):
        def make(name=name):
            grouped = {"num_key_value_heads": 2} if name in ("Llama", "Mistral", "Qwen2") else {}
            config = getattr(tf, name + "Config")(**tiny, **grouped, pad_token_id=1)
            return Wrapped(getattr(tf, name + "Model")(config), pair, hidden)
        yield name.lower(), make, (ids, mask), axes

    def gpt2():
        config = tf.GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4,
                               attn_implementation="eager")
        return Wrapped(tf.GPT2LMHeadModel(config), pair, lambda o: o.logits)
    yield "gpt2", gpt2, (ids, mask), axes

    def t5():
        config = tf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                             decoder_start_token_id=0)
        return Wrapped(tf.T5ForConditionalGeneration(config),
                       [*pair, "decoder_input_ids"], lambda o: o.logits)
    yield "t5", t5, (ids, mask, ids[:, :4].clone()), {0: "N"}

    def whisper():
        config = tf.WhisperConfig(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2,
                                  encoder_attention_heads=4, decoder_attention_heads=4,
                                  encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=16,
                                  max_source_positions=20, max_target_positions=30, pad_token_id=0,
                                  bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                                  attn_implementation="eager")
        return Wrapped(tf.WhisperForConditionalGeneration(config),
                       ["input_features", "decoder_input_ids"], lambda o: o.logits)
    yield "whisper", whisper, (torch.randn(2, 16, 40), ids[:, :4].clone()), None

    def wav2vec2():
        config = tf.Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=2,
                                   num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16),
                                   conv_kernel=(10, 3), conv_stride=(5, 2),
                                   num_feat_extract_layers=2,
                                   num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
                                   attn_implementation="eager")
        return First(tf.Wav2Vec2Model(config))
    yield "wav2vec2", wav2vec2, (torch.randn(2, 400),), {0: "N"}


class First(nn.Module):
    """A model's first result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


class Recurrent(nn.Module):
    """Two bidirectional layers of a torch recurrent network."""

    def __init__(self, kind):
        super().__init__()
        self.net = kind(8, 12, num_layers=2, bidirectional=True)

    def forward(self, x):
        y, state = self.net(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Attention(nn.Module):
    """torch's own transformer encoder and decoder layers."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x, y):
        return self.decoder(y, self.encoder(x))


class Assorted(nn.Module):
    """Operators that networks use in passing."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)
        self.norm, self.group = nn.InstanceNorm2d(3, affine=True), nn.GroupNorm(2, 4)

    def forward(self, x):
        y = self.norm(self.up(self.group(x)))
        y = nn.functional.interpolate(y, scale_factor=1.5, mode="bilinear", align_corners=False)
        y = nn.functional.pad(y, (1, 2, 0, 1), mode="reflect")
        values, where = y.flatten(1).topk(5)
        z = torch.einsum("nchw,nchv->nwv", y, y).cumsum(1).tril()
        spread = torch.stack([y.std((1, 2, 3)), y.amax((1, 2, 3)), y.logsumexp((1, 2, 3))], 1)
        grid = nn.functional.affine_grid(torch.eye(2, 3).expand(2, 2, 3), [2, 3, 5, 5], False)
        sampled = nn.functional.grid_sample(y, grid, align_corners=False)
        return values, where, z, spread, sampled, nn.functional.gelu(x), nn.functional.mish(x)


def torch_nets():
    """What torch brings itself."""
    sequence = torch.randn(5, 2, 8)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        yield kind.__name__.lower(), lambda k=kind: Recurrent(k), (sequence,), {0: "T"}
    pair = (torch.randn(2, 6, 16), torch.randn(2, 4, 16))
    yield "transformer_layers", Attention, pair, {0: "N"}
    yield "assorted", Assorted, (torch.randn(2, 4, 6, 6),), {0: "N"}


class WhileLoop(nn.Module):
    """A loop whose length depends on the data, with a branch in it; for TorchScript."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x, steps: int):
        total = torch.zeros_like(x)
        for i in range(steps):
            x = torch.tanh(self.cell(x))
            if bool(x.sum() > 0):
                total = total + x * float(i)
            else:
                total = total - x
        while bool(total.abs().max() < 10.0):
            total = total * 2.0 + 0.1
        return total, x


class ListLoop(nn.Module):
    """A list filled in a nested loop; for TorchScript."""

    def forward(self, x):
        rows = []
        for i in range(x.size(0)):
            row = x[i]
            for j in range(i):
                row = row + x[j]
            rows.append(row)
        return torch.stack(rows)


class CondLoop(nn.Module):
    """torch.cond; for dynamo."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


def scripted():
    """Control flow in the model itself; these go through one exporter only."""
    yield "script_while", lambda: torch.jit.script(WhileLoop().eval()), \
        (torch.randn(2, 4), torch.tensor(3)), {0: "N"}
    yield "script_list", lambda: torch.jit.script(ListLoop()), (torch.randn(4, 3),), {0: "N"}
    yield "dynamo_cond", CondLoop, (torch.randn(2, 3),), None


def export(module, inputs, axes, exporter):
    """The exported model, with the given axes symbolic where the exporter manages that."""
    names = [f"input_{i}" for i in range(len(inputs))]
    if exporter == "torchscript":
        buffer = io.BytesIO()
        kept = {n: axes for n, v in zip(names, inputs) if v.ndim} if axes else None
        torch.onnx.export(module, inputs, buffer, dynamo=False, opset_version=OPSET[exporter],
                          input_names=names, dynamic_axes=kept)
        return onnx.load_from_string(buffer.getvalue())
    dynamic = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes or ()} for _ in inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        for shapes in (dynamic, None) if axes else (None,):
            try:
                torch.onnx.export(module, inputs, path, dynamo=True, opset_version=OPSET[exporter],
                                  input_names=names, external_data=False, verbose=False,
                                  dynamic_shapes=shapes)
                return onnx.load(path)
            except Exception:
                if shapes is None:
                    raise


def case(module, inputs, axes, exporter):
    """(model, inputs in the graph's order, ONNX Runtime's outputs); exporters may drop inputs."""
    model = export(module, inputs, axes, exporter)
    feeds = {f"input_{i}": np.asarray(v) for i, v in enumerate(inputs)}
    feeds = {i.name: feeds[i.name] for i in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return model, list(feeds.values()), session.run(None, feeds)


def main():
    """Exports each model with both exporters; prints what went wrong and goes on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if args.small:
        return 1 if write_small(args.out, args.names) else 0
    written = failed = 0
    for source in (scripted, torch_nets, language, vision):
        for name, make, inputs, axes in source():
            if args.names and name not in args.names:
                continue
            exporters = {"script": ["torchscript"], "dynamo": ["dynamo"]}.get(
                name.split("_")[0], ["torchscript", "dynamo"])
            for exporter in exporters:
                torch.manual_seed(0)
                label = f"{name}__{exporter}"
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        module = make().eval()
                        model, given, results = case(module, inputs, axes, exporter)
                    write_case(args.out / label, model, [(given, results)], TOLERANCE)
                    written += 1
                    print(f"{label}: {len(model.graph.node)} nodes", flush=True)
                except Exception as error:
                    failed += 1
                    first = str(error).strip().splitlines() or [""]
                    print(f"{label}: {type(error).__name__}: {first[0][:150]}", flush=True)
    print(f"{written} cases written, {failed} not exported")


if __name__ == "__main__":
    sys.exit(main())
