"""Blocks of networks that many people use, as ONNX graphs with random weights: what stands around a convolution
decides how maps lie, so that a convolution by itself says little about it."""
import numpy as np

from onnx_graph import F32, Graph


class Block(Graph):
    """A block under construction, of one image; a map's name and channels go from layer to layer."""

    def conv(self, x, inner, outer, size, act=None, stride=1, groups=1, dilation=1, pads=None):
        """A convolution with a bias, whose map keeps its size but for the stride; then an activation."""
        sizes = size if isinstance(size, tuple) else (size, size)
        w = self.rng.standard_normal((outer, inner // groups, *sizes), F32)
        w = self.constant(w * F32((inner // groups * np.prod(sizes)) ** -0.5), F32)
        around = [n // 2 * dilation for n in sizes] if pads is None else pads
        y = self.node("Conv", x, w, self.vector(outer), pads=[*around, *around], group=groups,
                      strides=[stride] * len(sizes), dilations=[dilation] * len(sizes))
        return self.activate(y, act)

    def activate(self, x, act):
        """An activation, as exporters write it."""
        if act == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        if act == "relu6":
            return self.node("Clip", x, self.constant(0, F32), self.constant(6, F32))
        if act == "gelu":
            gate = self.node("Erf", self.node("Div", x, self.constant(2 ** 0.5, F32)))
            y = self.node("Mul", x, self.node("Add", gate, self.constant(1, F32)))
            return self.node("Mul", y, self.constant(0.5, F32))
        return self.node(act, x) if act else x

    def pool(self, x, size, stride, pad, kind="MaxPool"):
        """A pooling of square windows."""
        return self.node(kind, x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def up(self, x, inner, outer, size, pad):
        """A transposed convolution that makes a map twice as large."""
        w = self.constant(self.rng.standard_normal((inner, outer, size, size), F32)
                          * F32(inner ** -0.5), F32)
        return self.node("ConvTranspose", x, w, strides=[2, 2], pads=[pad] * 4)


def bottleneck(g, channels, inner, groups=1):
    """Two blocks of ResNet, or of ResNeXt and RegNet with groups."""
    x = "x"
    for _ in range(2):
        y = g.conv(x, channels, inner, 1, "Relu")
        y = g.conv(y, inner, inner, 3, "Relu", groups=groups)
        x = g.node("Relu", g.node("Add", x, g.conv(y, inner, channels, 1)))
    return x


def basic(g, channels):
    """Two blocks of ResNet-18."""
    x = "x"
    for _ in range(2):
        y = g.conv(g.conv(x, channels, channels, 3, "Relu"), channels, channels, 3)
        x = g.node("Relu", g.node("Add", x, y))
    return x


def stem(g, size, channels):
    """The first layers of ResNet."""
    return g.pool(g.conv("x", 3, channels, size, "Relu", stride=2), 3, 2, 1)


def inverted(g, channels, factor, size=3, act="relu6", stride=1, is_scaled=False):
    """Blocks of MobileNet, or of EfficientNet with channels that are scaled."""
    x, wide, few = "x", channels * factor, max(channels // 4, 1)
    for _ in range(2 if stride == 1 else 1):
        y = g.conv(x, channels, wide, 1, act)
        y = g.conv(y, wide, wide, size, act, stride, groups=wide)
        if is_scaled:
            scale = g.conv(g.node("GlobalAveragePool", y), wide, few, 1, act)
            y = g.node("Mul", y, g.node("Sigmoid", g.conv(scale, few, wide, 1)))
        y = g.conv(y, wide, channels, 1)
        x = g.node("Add", x, y) if stride == 1 else y
    return x


def dense(g, channels, growth=32):
    """Four layers of DenseNet."""
    x = "x"
    for k in range(4):
        inner = channels + k * growth
        one, zero = (g.constant(np.full(inner, n), F32) for n in (1, 0))
        y = g.node("Relu", g.node("BatchNormalization", x, one, zero, zero, one))
        y = g.conv(g.conv(y, inner, 128, 1, "Relu"), 128, growth, 3)
        x = g.node("Concat", x, y, axis=1)
    return x


def shuffle(g, channels, size):
    """Two blocks of ShuffleNet."""
    x, half = "x", channels // 2
    for _ in range(2):
        left, right = g.node("Split", x, g.constant([half, half]), outputs=2, axis=1)
        y = g.conv(g.conv(right, half, half, 1, "Relu"), half, half, 3, groups=half)
        x = g.node("Concat", left, g.conv(y, half, half, 1, "Relu"), axis=1)
        x = g.node("Reshape", x, g.constant([1, 2, half, size, size]))
        x = g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 1, 3, 4]), g.constant([1, channels, size, size]))
    return x


def convnext(g, channels):
    """A block of ConvNeXt."""
    y = g.node("Transpose", g.conv("x", channels, channels, 7, groups=channels), perm=[0, 2, 3, 1])
    y = g.node("LayerNormalization", y, *g.norm(channels))
    y = g.activate(g.linear(y, channels, 4 * channels), "gelu")
    y = g.node("Transpose", g.linear(y, 4 * channels, channels), perm=[0, 3, 1, 2])
    return g.node("Add", "x", y)


def inception(g, channels):
    """A block of Inception with windows of a line."""
    first = g.conv("x", channels, 192, 1, "Relu")
    y = g.conv(g.conv("x", channels, 128, 1, "Relu"), 128, 128, (1, 7), "Relu")
    pooled = g.conv(g.pool("x", 3, 1, 1, "AveragePool"), channels, 192, 1, "Relu")
    return g.node("Concat", first, g.conv(y, 128, 192, (7, 1), "Relu"), pooled, axis=1)


def yolo(g, channels, size):
    """Parts of a YOLO: a block of which half goes through, pools of one map, and the map twice as large."""
    half = channels // 2
    y = g.conv("x", channels, channels, 1, "silu")
    left, right = g.node("Split", y, g.constant([half, half]), outputs=2, axis=1)
    deep = g.conv(g.conv(right, half, half, 3, "silu"), half, half, 3, "silu")
    both = g.node("Concat", left, right, g.node("Add", deep, right), axis=1)
    y = g.conv(both, 3 * half, channels, 1, "silu")
    near = g.pool(y, 5, 1, 2)
    pools = g.node("Concat", y, near, g.pool(near, 5, 1, 2), axis=1)
    y = g.conv(pools, 3 * channels, channels, 1, "silu")
    return g.node("Resize", y, "", "", g.constant([1, channels, 2 * size, 2 * size]), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def vgg(g, channels):
    """Two convolutions and a pooling."""
    y = g.conv(g.conv("x", channels, channels, 3, "Relu"), channels, channels, 3, "Relu")
    return g.pool(y, 2, 2, 0)


def fire(g, channels):
    """A block of SqueezeNet and the pooling behind it."""
    y = g.conv("x", channels, 32, 1, "Relu")
    y = g.node("Concat", g.conv(y, 32, 128, 1, "Relu"), g.conv(y, 32, 128, 3, "Relu"), axis=1)
    return g.pool(y, 3, 2, 0)


def decoder(g, channels):
    """The way up of a U-net."""
    y = g.up("x", channels, channels // 2, 2, 0)
    y = g.conv(y, channels // 2, channels // 2, 3, "Relu")
    return g.up(y, channels // 2, channels // 4, 4, 1)


def dilated(g, channels):
    """The windows of DeepLab."""
    maps = [g.conv("x", channels, 64, 3, "Relu", dilation=n) for n in (2, 6, 12)]
    return g.node("Concat", *maps, axis=1)


def speech(g, channels):
    """The first layers of Whisper."""
    y = g.conv("x", channels, 384, (3,), "gelu", pads=[1])
    return g.conv(y, 384, 384, (3,), "gelu", stride=2, pads=[1])


def causal(g, channels):
    """Dilated windows of the past along one axis."""
    x = "x"
    for n in (1, 2, 4, 8):
        padded = g.node("Pad", x, g.constant([0, 0, 2 * n, 0, 0, 0]))
        y = g.conv(padded, channels, channels, (3,), "Relu", dilation=n, pads=[0])
        x = g.node("Add", x, y)
    return x


# Name, shape of the input, function, and its arguments behind the graph.
BLOCKS = [
    *((f"resnet_{size}", [1, channels, size, size], bottleneck, (channels, channels // 4))
      for size, channels in ((56, 256), (28, 512), (14, 1024), (7, 2048))),
    ("resnet18_56", [1, 64, 56, 56], basic, (64,)),
    ("resnext_56", [1, 256, 56, 56], bottleneck, (256, 128, 32)),
    ("resnext_28", [1, 512, 28, 28], bottleneck, (512, 256, 32)),
    ("regnet_28", [1, 64, 28, 28], bottleneck, (64, 64, 8)),
    ("stem_7", [1, 3, 224, 224], stem, (7, 64)),
    ("stem_3", [1, 3, 224, 224], stem, (3, 32)),
    ("mobilenet_112", [1, 16, 112, 112], inverted, (16, 6, 3, "relu6", 2)),
    ("mobilenet_56", [1, 24, 56, 56], inverted, (24, 6)),
    ("mobilenet_14", [1, 96, 14, 14], inverted, (96, 6)),
    ("mobilenet_7", [1, 160, 7, 7], inverted, (160, 6)),
    ("mobilenet3_14", [1, 80, 14, 14], inverted, (80, 4, 3, "HardSwish", 1, True)),
    ("efficientnet_28", [1, 40, 28, 28], inverted, (40, 6, 5, "silu", 1, True)),
    ("efficientnet_14", [1, 112, 14, 14], inverted, (112, 6, 5, "silu", 1, True)),
    ("densenet_28", [1, 128, 28, 28], dense, (128,)),
    ("shufflenet_28", [1, 116, 28, 28], shuffle, (116, 28)),
    ("convnext_56", [1, 96, 56, 56], convnext, (96,)),
    ("inception_17", [1, 768, 17, 17], inception, (768,)),
    ("yolo_40", [1, 128, 40, 40], yolo, (128, 40)),
    ("vgg_224", [1, 64, 224, 224], vgg, (64,)),
    ("squeezenet_27", [1, 256, 27, 27], fire, (256,)),
    ("unet_28", [1, 128, 28, 28], decoder, (128,)),
    ("deeplab_33", [1, 128, 33, 33], dilated, (128,)),
    ("whisper", [1, 80, 400], speech, (80,)),
    ("tcn", [1, 64, 256], causal, (64,)),
]
