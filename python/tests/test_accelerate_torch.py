"""Modules of diffusers and transformers, run by headroom, against the originals."""

import copy
import json
import math
import os
import subprocess
import sys
import unittest
import warnings

import diffusers
import torch
import transformers

import headroom
from support import DEVICE, ROOT


def error(actual, expected):
    return float((actual.double() - expected.double()).norm() / expected.double().norm())


def flux(**options):
    torch.manual_seed(1)
    return diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=32, num_attention_heads=4,
        joint_attention_dim=64, pooled_projection_dim=48, guidance_embeds=True, axes_dims_rope=(8, 12, 12), **options,
    ).eval()  # fmt: skip


def flux_inputs(batch=2, image=12, text=5):
    return {
        "hidden_states": torch.randn(batch, image, 16),
        "encoder_hidden_states": torch.randn(batch, text, 64),
        "pooled_projections": torch.randn(batch, 48),
        "timestep": torch.tensor([0.7]).expand(batch),
        "img_ids": torch.randint(0, 9, (image, 3)).float(),
        "txt_ids": torch.zeros(text, 3),
        "guidance": torch.full((batch,), 3.5),
    }


def autoencoder():
    torch.manual_seed(2)
    return diffusers.AutoencoderKL(
        in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        sample_size=32, scaling_factor=0.4, shift_factor=0.1,
    ).eval()  # fmt: skip


def setUpModule():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    torch.set_default_device(DEVICE)
    torch.backends.cudnn.allow_tf32 = False


class Accelerate(unittest.TestCase):
    def check(self, module, *calls):
        """Outputs agree, twice, and are the module's own again once it is restored."""
        module.eval()
        with torch.no_grad():
            expected = [call(module) for call in calls]
            self.assertIs(headroom.accelerate(module, strict=True), module)
            for _ in range(2):
                for call, own in zip(calls, expected):
                    made = call(module)
                    self.assertEqual((made.dtype, made.shape, made.device), (own.dtype, own.shape, own.device))
                    self.assertLess(error(made, own), 1e-5)
            headroom.restore(module)
            for call, own in zip(calls, expected):
                self.assertTrue(torch.equal(call(module), own))

    def test_flux(self):
        one, other = flux_inputs(), flux_inputs(1, 20, 7)
        self.check(flux(), lambda m: m(**one, return_dict=False)[0], lambda m: m(**other).sample)

    def test_qwen_image(self):
        module = diffusers.QwenImageTransformer2DModel(
            patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=32, num_attention_heads=2,
            joint_attention_dim=24, axes_dims_rope=(8, 12, 12),
        )  # fmt: skip
        inputs = {
            "hidden_states": torch.randn(1, 15 + 4, 16),
            "encoder_hidden_states": torch.randn(1, 6, 24),
            "encoder_hidden_states_mask": torch.ones(1, 6, dtype=torch.long),
            "timestep": torch.tensor([0.3]),
        }
        self.check(
            module,
            lambda m: m(**{**inputs, "hidden_states": inputs["hidden_states"][:, :15]}, img_shapes=[[(1, 3, 5)]]).sample,
            lambda m: m(**inputs, img_shapes=[[(1, 3, 5), (1, 2, 2)]], return_dict=False)[0],
        )

    def test_z_image(self):
        module = diffusers.ZImageTransformer2DModel(
            in_channels=4, dim=48, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=20,
            axes_dims=[8, 8, 8], axes_lens=[128, 32, 32],
        )  # fmt: skip
        for token in (module.x_pad_token, module.cap_pad_token):
            torch.nn.init.normal_(token)
        images = [torch.randn(4, 1, 6, 10), torch.randn(4, 1, 6, 10), torch.randn(4, 1, 8, 8)]
        texts = [torch.randn(5, 20), torch.randn(40, 20), torch.randn(5, 20)]
        times = torch.tensor([0.3, 0.3, 0.3])
        self.check(
            module,
            lambda m: torch.stack(m(images[:2], times[:2], [texts[0], texts[2]], return_dict=False)[0]),
            lambda m: m(images[:1], times[:1], texts[1:2]).sample[0],
            *[lambda m, row=row: m(images, times, texts).sample[row] for row in range(3)],
        )
        with self.assertRaisesRegex(headroom.UsageError, "several images of a text"):
            headroom.accelerate(module, strict=True)([[images[0]]], times[:1], [[texts[0]]])

    def test_unet_of_sdxl(self):
        module = diffusers.UNet2DConditionModel(
            sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=24, attention_head_dim=(2, 4),
            use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + 20, transformer_layers_per_block=(1, 2),
        )  # fmt: skip
        x, text = torch.randn(2, 4, 16, 16), torch.randn(2, 7, 24)
        added = {"text_embeds": torch.randn(2, 20), "time_ids": torch.rand(2, 6) * 100}
        self.check(
            module,
            lambda m: m(x, torch.tensor(37), text, added_cond_kwargs=added, return_dict=False)[0],
            lambda m: m(x, 499, text, added_cond_kwargs=added).sample,
        )

    def test_autoencoder(self):
        latents, image = torch.randn(1, 4, 8, 8), torch.randn(1, 3, 16, 16)
        self.check(
            autoencoder(),
            lambda m: m.decode(latents).sample,
            lambda m: m.decode(latents, return_dict=False)[0],
            lambda m: m.encode(image).latent_dist.mode(),
            lambda m: m.encode(image, return_dict=False)[0].logvar,
        )

    def test_t5(self):
        module = transformers.T5EncoderModel(
            transformers.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                  feed_forward_proj="gated-gelu")
        )  # fmt: skip
        ids, mask = torch.randint(0, 99, (2, 7)), torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
        self.check(module, lambda m: m(ids)[0], lambda m: m(ids, attention_mask=mask).last_hidden_state)

    def test_clip(self):
        config = transformers.CLIPTextConfig(
            vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            projection_dim=16, eos_token_id=98, bos_token_id=0,
        )  # fmt: skip
        ids = torch.randint(0, 90, (2, 77))
        ids[:, 30] = 98
        states = [lambda m, i=i: m(ids, output_hidden_states=True).hidden_states[i] for i in range(3)]
        self.check(
            transformers.CLIPTextModel(config),
            lambda m: m(ids).last_hidden_state,
            lambda m: m(ids).pooler_output,
            *states,
        )
        self.check(
            transformers.CLIPTextModelWithProjection(config),
            lambda m: m(ids, output_hidden_states=True)[0],
            lambda m: m(ids).text_embeds,
            *states,
        )

    def test_narrow_weights_keep_their_dtype(self):
        module, inputs = flux().to(torch.bfloat16), flux_inputs()
        for name in ("hidden_states", "encoder_hidden_states", "pooled_projections"):
            inputs[name] = inputs[name].bfloat16()
        with torch.no_grad():
            own = module(**inputs).sample
            wide = copy.deepcopy(module).float()(**{name: x.float() for name, x in inputs.items()}).sample
            made = headroom.accelerate(module)(**inputs).sample
        self.assertEqual(made.dtype, torch.bfloat16)
        self.assertLess(error(made, own), 5e-2)
        self.assertLess(error(made, wide), error(own, wide))

    def test_changed_weights_are_read_again_after_restoring(self):
        module, inputs = flux(), flux_inputs()
        with torch.no_grad():
            before = headroom.accelerate(module)(**inputs).sample
            headroom.restore(module)
            module.proj_out.weight.mul_(2)
            after = headroom.accelerate(module)(**inputs).sample
        self.assertGreater(error(after, before), 0.1)


class Dropped(unittest.TestCase):
    def test_weights_are_freed_as_they_are_loaded(self):
        module, inputs = flux(), flux_inputs()
        with torch.no_grad():
            own = module(**inputs).sample
            headroom.accelerate(module, release="drop")
            for _ in range(2):
                made = module(**inputs).sample
                self.assertEqual((made.dtype, made.device), (own.dtype, own.device))
                self.assertLess(error(made, own), 1e-5)
        self.assertEqual([parameter.numel() for parameter in module.parameters()], [0] * len(list(module.parameters())))
        self.assertEqual((module.dtype, module.device), (torch.float32, own.device))
        with self.assertRaisesRegex(headroom.UsageError, "joint_attention_kwargs; PyTorch cannot run it either"):
            module(**inputs, joint_attention_kwargs={"scale": 1.0})
        with self.assertRaisesRegex(headroom.UsageError, "weights were dropped"):
            headroom.restore(module)

    def test_tied_weights_are_freed_once(self):
        module, inputs = flux(), flux_inputs()
        first = module.transformer_blocks[0].ff
        module.transformer_blocks[0].ff_context.net[2].weight = first.net[2].weight  # one parameter
        module.single_transformer_blocks[0].attn.to_q.weight.data = module.transformer_blocks[0].attn.to_q.weight.data
        with torch.no_grad():
            own = module(**inputs).sample
            made = headroom.accelerate(module, release="drop")(**inputs).sample
        self.assertLess(error(made, own), 1e-5)

    def test_what_no_pass_needed_is_left(self):
        vae, latents = autoencoder(), torch.randn(1, 4, 8, 8)
        with torch.no_grad():
            own = vae.decode(latents).sample
            headroom.accelerate(vae, release="drop")
            headroom.restore(vae)  # before the first call nothing is dropped
            headroom.accelerate(vae, release="drop")
            self.assertLess(error(vae.decode(latents).sample, own), 1e-5)
        self.assertEqual(sum(parameter.numel() for parameter in vae.decoder.parameters()), 0)
        self.assertGreater(sum(parameter.numel() for parameter in vae.encoder.parameters()), 0)

    def test_weights_that_move_are_read_where_they_are(self):
        module, names = flux().cpu(), []

        def moved(name):
            names.append(name)
            tensor = module.get_parameter(name)
            copy = tensor.detach().clone()
            tensor.data.fill_(math.nan)
            return headroom.from_dlpack(copy)

        def sample(network, optimize):
            inputs = flux_inputs()
            shapes = {name: tuple(x.shape) for name, x in inputs.items()}
            session = headroom.Session(network.compile(shapes, optimize=optimize))
            made = session(**{name: x.cpu().contiguous() for name, x in inputs.items()})
            return torch.from_dlpack(made)

        def network(loaded):
            weights = {name: headroom.from_dlpack(x.detach()) for name, x in module.state_dict().items()}
            config = headroom._accelerate._config_of(module)
            return headroom.Component._in_memory("own", config, weights, "cpu", loaded=loaded)

        torch.manual_seed(5)
        expected = sample(network(None), "lossless")
        torch.manual_seed(5)
        ours = network(moved)
        self.assertTrue(torch.equal(sample(ours, "lossless"), expected))
        self.assertTrue(bool(sample(ours, "bf16").isfinite().all()), "it needs the weights again")
        self.assertEqual(sorted(names), sorted(name for name, _ in module.named_parameters()))

    def test_memory_of_a_network_is_freed_layer_by_layer(self):
        """The peak lies below both copies by most of one."""
        script = os.path.join(ROOT, "bench", "accelerate_memory.py")
        peaks = {}
        for release in ("keep", "drop"):
            run = subprocess.run(
                [sys.executable, script, release, "--width", "1024", "--blocks", "1", "4"],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            peaks[release] = json.loads(run.stdout)
        weights = peaks["keep"]["weights_bytes"]
        self.assertGreater(peaks["keep"]["added_bytes"], 0.95 * weights)
        self.assertLess(peaks["drop"]["added_peak_bytes"], 0.6 * weights)
        self.assertLess(peaks["drop"]["added_bytes"], 0.2 * weights)


class Falling(unittest.TestCase):
    def test_unknown_arguments_run_in_pytorch_with_one_warning(self):
        module, inputs = flux(), flux_inputs()
        with torch.no_grad():
            own = module(**inputs, joint_attention_kwargs={"scale": 1.0}).sample
            headroom.accelerate(module)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(2):
                    self.assertTrue(torch.equal(module(**inputs, joint_attention_kwargs={"scale": 1.0}).sample, own))
            said = [str(one.message) for one in caught if "headroom" in str(one.message)]
        self.assertEqual(len(said), 1)
        self.assertIn("joint_attention_kwargs", said[0])

    def test_strict_raises(self):
        module, inputs = headroom.accelerate(flux(), strict=True), flux_inputs()
        with self.assertRaisesRegex(headroom.UsageError, "joint_attention_kwargs"):
            module(**inputs, joint_attention_kwargs={"scale": 1.0})
        vae = headroom.accelerate(autoencoder(), strict=True)
        vae.enable_tiling()
        with self.assertRaisesRegex(headroom.UsageError, "use_tiling"):
            vae.decode(torch.randn(1, 4, 8, 8))

    def test_gradients_run_in_pytorch(self):
        module, inputs = headroom.accelerate(flux(), strict=True), flux_inputs()
        inputs["hidden_states"].requires_grad_()
        with self.assertRaisesRegex(headroom.UsageError, "gradients"):
            module(**inputs)


class Refused(unittest.TestCase):
    def refuse(self, module, words):
        with self.assertRaisesRegex(headroom.UsageError, words):
            headroom.accelerate(module)

    def test_by_name(self):
        self.refuse(torch.nn.Linear(2, 2), "headroom has none of Linear; it has FluxTransformer2DModel")
        self.refuse(torch.compile(flux()), "torch.compile")
        compiled = flux()
        compiled.compile()
        self.refuse(compiled, "torch.compile")
        hooked = flux()
        hooked.register_forward_hook(lambda *_: None)
        self.refuse(hooked, "forward hooks")
        quantized = flux()
        quantized.register_to_config(quantization_config={"quant_method": "bitsandbytes"})
        self.refuse(quantized, "quantized")
        offloaded = flux()
        offloaded._hf_hook = object()
        self.refuse(offloaded, "accelerate offloads it")
        adapted = flux()
        adapted.peft_config = {"default": object()}
        self.refuse(adapted, "adapters")
        meta = flux().to("meta")
        self.refuse(meta, "on the device meta")
        changed = flux()
        changed.transformer_blocks[0].attn.set_processor(type("OwnProcessor", (), {"__call__": lambda self: None})())
        self.refuse(changed, "OwnProcessor")
        inner = autoencoder()
        inner.decoder.mid_block.attentions[0].processor = type("InnerProcessor", (), {})()
        self.refuse(inner, "InnerProcessor")
        twice = headroom.accelerate(flux())
        self.refuse(twice, "accelerated already")
        with self.assertRaisesRegex(headroom.UsageError, "nothing here is accelerated"):
            headroom.restore(flux())
        with self.assertRaisesRegex(headroom.UsageError, "expected 'torch', 'keep' or 'drop'"):
            headroom.accelerate(flux(), release="all")


class Pipelines(unittest.TestCase):
    def test_a_pipeline_is_used_as_before(self):
        config = transformers.CLIPTextConfig(
            vocab_size=99, hidden_size=48, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
            eos_token_id=98, bos_token_id=0,
        )  # fmt: skip
        transformer = flux()
        pipe = diffusers.FluxPipeline(
            scheduler=diffusers.FlowMatchEulerDiscreteScheduler(), vae=autoencoder(),
            text_encoder=transformers.CLIPTextModel(config).eval(), tokenizer=None, text_encoder_2=None,
            tokenizer_2=None, transformer=transformer,
        )  # fmt: skip
        pipe.set_progress_bar_config(disable=True)
        embeds = {"prompt_embeds": torch.randn(1, 5, 64), "pooled_prompt_embeds": torch.randn(1, 48)}

        def draw():
            generator = torch.Generator().manual_seed(3)
            return pipe(
                **embeds, height=32, width=32, num_inference_steps=3, generator=generator, output_type="pt"
            ).images

        own = draw()
        self.assertIs(headroom.accelerate(pipe, strict=True), pipe)
        self.assertLess(error(draw(), own), 1e-4)
        headroom.restore(pipe)
        self.assertTrue(torch.equal(draw(), own))


if __name__ == "__main__":
    unittest.main()
