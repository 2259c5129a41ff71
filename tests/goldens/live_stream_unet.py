"""LiveStreamUNet in plain PyTorch: what src/models/unets/live_stream_unet.hpp states, under the same names.

A U-Net that makes each frame of a live video anew. One call of it (`forward`) takes a noisy frame to v; a frame is one
to twenty calls along DDIM's steps (`Stream.frame`), a blend with the frame before, and a row of features in a ring of
memory. It needs PyTorch alone.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LARGE = dict(sample_size=64, in_channels=9, out_channels=3, block_out_channels=[192, 384, 768, 2560], layers_per_block=1,
             down_block_types=["DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"],
             up_block_types=["AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"], attention_head_dim=64,
             norm_num_groups=32, norm_eps=1e-5, memory_frames=32, memory_dim=512)
TRAIN_TIMESTEPS = 1000
# alpha^2 after each step of training, in f32 as diffusers' schedulers have it: linear betas.
ALPHAS_CUMPROD = torch.cumprod(1 - torch.linspace(0.0001, 0.02, TRAIN_TIMESTEPS, dtype=torch.float32), dim=0)
MEMORY_NORM_EPS = 1e-5


def sinusoids(timestep, width):
    """[cos, sin] of t 10000^(-i / (width / 2)), in the dtype of `timestep`: [batch] -> [batch, width]"""
    half = width // 2
    frequency = torch.exp(-math.log(10000.0) / half * torch.arange(half, dtype=timestep.dtype, device=timestep.device))
    angle = timestep[:, None] * frequency
    return torch.cat([angle.cos(), angle.sin()], dim=1)


class TimeEmbedding(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear_1 = nn.Linear(width, out)
        self.linear_2 = nn.Linear(out, out)

    def forward(self, waves):
        return self.linear_2(F.silu(self.linear_1(waves)))


class Resnet(nn.Module):
    """x + two convolutions of x; the time scales and shifts what is between them. [b, c, h, w] -> [b, width, h, w]"""

    def __init__(self, channels, width, time_dim, groups, eps):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, channels, eps)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time_emb_proj = nn.Linear(time_dim, 2 * width)
        self.norm2 = nn.GroupNorm(groups, width, eps)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x, time):
        hidden = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time_emb_proj(time)[:, :, None, None].chunk(2, dim=1)
        hidden = self.conv2(F.silu(self.norm2(hidden) * (1 + scale) + shift))
        return self.conv_shortcut(x) + hidden


class Attention(nn.Module):
    """x + attention of its pixels over the memory and themselves, whose keys and values are concatenated."""

    def __init__(self, width, head_dim, memory_dim, groups, eps):
        super().__init__()
        self.head_dim = head_dim
        self.group_norm = nn.GroupNorm(groups, width, eps)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.add_k_proj, self.add_v_proj = (nn.Linear(memory_dim, width) for _ in range(2))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def heads(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [b, heads, tokens, head_dim]

    def forward(self, x, memory):
        batch, _, height, width = x.shape
        pixels = self.group_norm(x).flatten(2).transpose(1, 2)  # [b, h w, c]
        memory = memory.expand(batch, -1, -1)
        k = torch.cat([self.add_k_proj(memory), self.to_k(pixels)], dim=1)  # [b, frames + h w, c]
        v = torch.cat([self.add_v_proj(memory), self.to_v(pixels)], dim=1)
        seen = F.scaled_dot_product_attention(self.heads(self.to_q(pixels)), self.heads(k), self.heads(v))
        out = self.to_out[0](seen.transpose(1, 2).flatten(2))  # [b, h w, c]
        return out.transpose(1, 2).unflatten(2, (height, width)) + x


class Sampler(nn.Module):
    """The convolution of an image that was halved (stride 2) or doubled (stride 1)."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, stride, padding=1)

    def forward(self, x):
        return self.conv(x if self.conv.stride[0] == 2 else F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Block(nn.Module):
    """What is at one level: resnets, attention behind each or behind the first alone, and what changes the size."""

    def __init__(self, resnets, attentions=(), downsampler=None, upsampler=None):
        super().__init__()
        self.resnets = nn.ModuleList(resnets)
        self.attentions = nn.ModuleList(attentions)
        if downsampler is not None:
            self.downsamplers = nn.ModuleList([downsampler])
        if upsampler is not None:
            self.upsamplers = nn.ModuleList([upsampler])

    def layer(self, j, x, time, memory):
        x = self.resnets[j](x, time)
        return self.attentions[j](x, memory) if j < len(self.attentions) else x


class Memory(nn.Module):
    def __init__(self, features, frames, dim):
        super().__init__()
        self.age_embedding = nn.Embedding(frames, dim)
        self.proj = nn.Linear(features, dim)
        self.norm = nn.LayerNorm(dim, MEMORY_NORM_EPS)

    def read(self, memory, position):
        """The rows, each with the embedding of its age: 0 of the frame before. [s, frames, dim]"""
        frames = memory.shape[1]
        ages = (position - 1 - torch.arange(frames, device=memory.device)) % frames
        return memory + self.age_embedding.weight[ages]

    def write(self, features, memory, position):
        frames = memory.shape[1]
        row = self.norm(self.proj(features.mean(dim=1)))  # [s, dim]
        is_next = torch.arange(frames, device=memory.device)[:, None] == position
        return torch.where(is_next, row[:, None], memory), (position + 1) % frames


class TemporalBlend(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.conv_in = nn.Conv2d(3 * channels, width, 3, padding=1)
        self.conv_out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, denoised, frame, previous):
        hidden = F.silu(self.conv_in(torch.cat([denoised, frame, previous], dim=1)))
        weight = torch.sigmoid(self.conv_out(hidden))  # [b, 1, h, w]
        return (previous + weight * (denoised - previous)).clamp(-1, 1)


class LiveStreamUNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        widths, layers = config["block_out_channels"], config["layers_per_block"]
        norm = (config["norm_num_groups"], config["norm_eps"])
        time_dim = 4 * widths[0]

        def resnet(channels, width):
            return Resnet(channels, width, time_dim, *norm)

        def attentions(types, level, count):
            if not types[level].startswith("Attn"):
                return []
            return [Attention(widths[level], config["attention_head_dim"], config["memory_dim"], *norm) for _ in range(count)]

        self.time_embedding = TimeEmbedding(widths[0], time_dim)
        self.conv_in = nn.Conv2d(config["in_channels"], widths[0], 3, padding=1)
        down, skips, channels = [], [widths[0]], widths[0]
        for level, width in enumerate(widths):
            resnets = [resnet(channels if j == 0 else width, width) for j in range(layers)]
            is_last = level + 1 == len(widths)
            down.append(Block(resnets, attentions(config["down_block_types"], level, layers),
                              downsampler=None if is_last else Sampler(width, width, stride=2)))
            skips += [width] * (layers if is_last else layers + 1)
            channels = width
        self.down_blocks = nn.ModuleList(down)
        middle = [resnet(channels, channels), resnet(channels, channels)]
        self.mid_block = Block(middle, [Attention(channels, config["attention_head_dim"], config["memory_dim"], *norm)])
        up = []
        for level in reversed(range(len(widths))):
            resnets = []
            for _ in range(layers + 1):
                resnets.append(resnet(channels + skips.pop(), widths[level]))
                channels = widths[level]
            upsampler = None
            if level > 0:
                upsampler = Sampler(channels, widths[level - 1], stride=1)
                channels = widths[level - 1]
            up_types = config["up_block_types"][::-1]
            up.append(Block(resnets, attentions(up_types, level, layers + 1), upsampler=upsampler))
        self.up_blocks = nn.ModuleList(up)
        self.conv_norm_out = nn.GroupNorm(config["norm_num_groups"], channels, config["norm_eps"])
        self.conv_out = nn.Conv2d(channels, config["out_channels"], 3, padding=1)
        self.memory = Memory(widths[-1], config["memory_frames"], config["memory_dim"])
        self.temporal_blend = TemporalBlend(config["out_channels"], widths[0])

    @classmethod
    def from_config(cls, config):
        """As diffusers' networks are made."""
        return cls(config)

    def forward(self, sample, frame, previous, memory, position, timestep):
        """v of a noisy frame [b, out_channels, h, w], and features [b, lowest level's pixels, c] for the memory."""
        waves = sinusoids(timestep, self.config["block_out_channels"][0]).to(sample.dtype)
        time = F.silu(self.time_embedding(waves))
        memory = self.memory.read(memory, position)
        x = self.conv_in(torch.cat([sample, frame, previous], dim=1))
        skips = [x]
        for block in self.down_blocks:
            for j in range(len(block.resnets)):
                skips.append(x := block.layer(j, x, time, memory))
            if hasattr(block, "downsamplers"):
                skips.append(x := block.downsamplers[0](x))
        x = self.mid_block.layer(0, x, time, memory)
        features = x.flatten(2).transpose(1, 2)
        x = self.mid_block.layer(1, x, time, memory)
        for block in self.up_blocks:
            for j in range(len(block.resnets)):
                x = block.layer(j, torch.cat([x, skips.pop()], dim=1), time, memory)
            if hasattr(block, "upsamplers"):
                x = block.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x))), features


def ddim_levels(steps, dtype=torch.float64):
    """Timesteps, and alpha^2 before and after each step, of diffusers' DDIMScheduler with `trailing` spacing."""
    alphas = ALPHAS_CUMPROD.to(dtype)
    times = [round(TRAIN_TIMESTEPS - k * TRAIN_TIMESTEPS / steps) - 1 for k in range(steps)]
    jump = TRAIN_TIMESTEPS // steps
    one = torch.ones((), dtype=dtype)
    return [(time, alphas[time], alphas[time - jump] if time >= jump else one) for time in times]


class Stream:
    """The state of a video between frames. `first` [b, 3, h, w] is the first frame of the camera."""

    def __init__(self, model, first, noise, steps):
        self.model, self.noise = model, noise
        self.time_dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
        self.levels = ddim_levels(steps, self.time_dtype)
        self.previous = first
        self.memory = first.new_zeros(first.shape[0], model.config["memory_frames"], model.config["memory_dim"])
        self.position = torch.zeros((), dtype=torch.int64, device=first.device)

    def frame(self, frame):
        sample = self.noise
        for time, alpha2, next_alpha2 in self.levels:
            timestep = torch.full((frame.shape[0],), float(time), dtype=self.time_dtype, device=frame.device)
            v, features = self.model(sample, frame, self.previous, self.memory, self.position, timestep)
            denoised = alpha2.sqrt() * sample - (1 - alpha2).sqrt() * v
            noise = alpha2.sqrt() * v + (1 - alpha2).sqrt() * sample
            sample = next_alpha2.sqrt() * denoised + (1 - next_alpha2).sqrt() * noise
        self.previous = self.model.temporal_blend(sample, frame, self.previous)
        self.memory, self.position = self.model.memory.write(features, self.memory, self.position)
        return self.previous
