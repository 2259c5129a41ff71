"""CLIP's and T5's text encoders as transformers has them, of tensors under the names of its checkpoints.

Only as much as training takes: no dropout, one dtype, ids in and states out.
"""

import math

import torch
import torch.nn.functional as F

from .tokenizers import CLIP_TOKENS, T5_TOKENS

WIDTH = 64


def attention(q, k, v, heads, scale, bias):
    """softmax(scale q k^T + bias) v of projections [batch, tokens, heads * head_dim]"""
    q, k, v = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))  # [batch, heads, tokens, head_dim]
    scores = scale * (q @ k.transpose(2, 3)) + bias  # [batch, heads, tokens, tokens]
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Encoder:
    """Tensors by their names in the checkpoint, and the config that says how they are put together."""

    def __init__(self, config, shapes, generator):
        self.config = config
        self.tensors = {name: self.first(name, shape, generator) for name, shape in shapes.items()}
        for tensor in self.tensors.values():
            tensor.requires_grad_()

    @staticmethod
    def first(name, shape, generator):
        """Gains 1, biases 0, tables and matrices normal, of a deviation that suits what they are for."""
        if name.endswith("bias"):
            return torch.zeros(shape)
        if name == "encoder.final_layer_norm.weight":
            return torch.full(shape, 2.0)  # from 1 it never reaches the longest rows of the table
        if len(shape) == 1:
            return torch.ones(shape)
        scale = 1 / math.sqrt(shape[1])
        if "embedding" in name or name == "shared.weight":
            scale = 0.1
        elif "attention_bias" in name:
            scale = 1.0
        elif ".q." in name:
            scale /= 4  # T5 does not scale its scores: this is 1 / sqrt(d_kv)
        return scale * torch.randn(shape, generator=generator)

    def linear(self, name, x):
        return F.linear(x, self.tensors[name + ".weight"], self.tensors.get(name + ".bias"))


class ClipText(Encoder):
    def __init__(self, vocabulary, generator, layers=2, heads=4, wide=128):
        size = len(vocabulary)
        config = {
            "architectures": ["CLIPTextModel"], "model_type": "clip_text_model", "vocab_size": size,
            "hidden_size": WIDTH, "intermediate_size": wide, "projection_dim": WIDTH, "num_hidden_layers": layers,
            "num_attention_heads": heads, "max_position_embeddings": CLIP_TOKENS, "hidden_act": "quick_gelu",
            "layer_norm_eps": 1e-5, "bos_token_id": size - 2, "eos_token_id": size - 1, "pad_token_id": size - 1,
            "torch_dtype": "float32",
        }
        shapes = {
            "text_model.embeddings.token_embedding.weight": (size, WIDTH),
            "text_model.embeddings.position_embedding.weight": (CLIP_TOKENS, WIDTH),
        }
        linears, norms = {}, ["text_model.final_layer_norm"]
        for i in range(layers):
            layer = f"text_model.encoder.layers.{i}."
            linears.update({f"{layer}self_attn.{part}_proj": (WIDTH, WIDTH) for part in ("q", "k", "v", "out")})
            linears.update({layer + "mlp.fc1": (wide, WIDTH), layer + "mlp.fc2": (WIDTH, wide)})
            norms += [layer + "layer_norm1", layer + "layer_norm2"]
        for name, shape in [*linears.items(), *((norm, (WIDTH,)) for norm in norms)]:
            shapes.update({name + ".weight": shape, name + ".bias": shape[:1]})
        super().__init__(config, shapes, generator)

    def norm(self, name, x):
        weight, bias = self.tensors[name + ".weight"], self.tensors[name + ".bias"]
        return F.layer_norm(x, (WIDTH,), weight, bias, self.config["layer_norm_eps"])

    def forward(self, ids):
        """ids [batch, tokens] -> the state of the first end of text, [batch, 64]"""
        ends = (ids == self.config["eos_token_id"]).int().argmax(1)
        ids = ids[:, : ends.max() + 1]  # what comes behind is not seen
        heads, tokens = self.config["num_attention_heads"], ids.shape[1]
        x = self.tensors["text_model.embeddings.token_embedding.weight"][ids]  # [batch, tokens, 64]
        x = x + self.tensors["text_model.embeddings.position_embedding.weight"][:tokens]
        causal = torch.full((tokens, tokens), -math.inf).triu(1)
        for i in range(self.config["num_hidden_layers"]):
            layer = f"text_model.encoder.layers.{i}."
            n = self.norm(layer + "layer_norm1", x)
            q, k, v = (self.linear(f"{layer}self_attn.{part}_proj", n) for part in "qkv")
            seen = attention(q, k, v, heads, 1 / math.sqrt(WIDTH // heads), causal)
            x = x + self.linear(layer + "self_attn.out_proj", seen)
            wide = self.linear(layer + "mlp.fc1", self.norm(layer + "layer_norm2", x))
            x = x + self.linear(layer + "mlp.fc2", wide * torch.sigmoid(1.702 * wide))
        return self.norm("text_model.final_layer_norm", x[torch.arange(len(ids)), ends])


class T5Text(Encoder):
    """Its epsilon is 1, not 1e-6: so the last norm lets states differ in length, as the rows of the table do. And its
    buckets hold one distance each, up to 15, so that the places of 16 tokens can be distinguished."""

    def __init__(self, vocabulary_size, generator, layers=3, heads=4, head_dim=16, wide=192):
        config = {
            "architectures": ["T5EncoderModel"], "model_type": "t5", "vocab_size": vocabulary_size, "d_model": WIDTH,
            "d_kv": head_dim, "d_ff": wide, "num_layers": layers, "num_heads": heads,
            "feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": T5_TOKENS, "layer_norm_epsilon": 1.0, "is_encoder_decoder": False,
            "use_cache": False, "pad_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32",
        }
        inner = heads * head_dim
        shapes = {"shared.weight": (vocabulary_size, WIDTH), "encoder.final_layer_norm.weight": (WIDTH,)}
        shapes["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (32, heads)
        for i in range(layers):
            at = f"encoder.block.{i}.layer."
            shapes.update({f"{at}0.SelfAttention.{part}.weight": (inner, WIDTH) for part in "qkv"})
            shapes[at + "0.SelfAttention.o.weight"] = (WIDTH, inner)
            shapes.update({f"{at}1.DenseReluDense.{part}.weight": (wide, WIDTH) for part in ("wi_0", "wi_1")})
            shapes[at + "1.DenseReluDense.wo.weight"] = (WIDTH, wide)
            shapes.update({f"{at}{part}.layer_norm.weight": (WIDTH,) for part in (0, 1)})
        super().__init__(config, shapes, generator)
        self.buckets = self.position_buckets()

    def position_buckets(self):
        """[query, key]: the row of the table of biases for the distance key - query."""
        half = self.config["relative_attention_num_buckets"] // 2
        exact, most = half // 2, self.config["relative_attention_max_distance"]
        places = torch.arange(T5_TOKENS)
        distance = places[None, :] - places[:, None]
        apart = distance.abs()
        further = exact + ((apart.clamp(min=1).float() / exact).log() / math.log(most / exact) * (half - exact)).long()
        return (distance > 0) * half + torch.where(apart < exact, apart, further.clamp(max=half - 1))

    def norm(self, name, x):
        mean_square = x.square().mean(-1, keepdim=True)
        return self.tensors[name + ".weight"] * x * torch.rsqrt(mean_square + self.config["layer_norm_epsilon"])

    def forward(self, ids):
        """ids [batch, 16] -> states [batch, 16, 64]"""
        x = self.tensors["shared.weight"][ids]
        table = self.tensors["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        bias = table[self.buckets].permute(2, 0, 1)  # [heads, 16, 16]
        for i in range(self.config["num_layers"]):
            at = f"encoder.block.{i}.layer."
            n = self.norm(at + "0.layer_norm", x)
            q, k, v = (self.linear(f"{at}0.SelfAttention.{part}", n) for part in "qkv")
            x = x + self.linear(at + "0.SelfAttention.o", attention(q, k, v, self.config["num_heads"], 1.0, bias))
            n = self.norm(at + "1.layer_norm", x)
            gate = F.gelu(self.linear(at + "1.DenseReluDense.wi_0", n), approximate="tanh")
            x = x + self.linear(at + "1.DenseReluDense.wo", gate * self.linear(at + "1.DenseReluDense.wi_1", n))
        return self.norm("encoder.final_layer_norm", x)
