"""Tensors of PyTorch on a CPU."""

import unittest

import numpy
import torch

import headroom
from support import random_inputs, tiny_session

KINDS = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2", torch.int64: "i64", torch.int32: "i32",
    torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


class Torch(unittest.TestCase):
    def test_every_dtype_both_ways_without_a_copy(self):
        for kind in KINDS:
            own = torch.arange(6).reshape(2, 3).to(kind)
            tensor = headroom.from_dlpack(own)
            self.assertEqual((tensor.data, tensor.shape), (own.data_ptr(), (2, 3)))
            self.assertEqual(len({headroom.from_dlpack(own).dtype for _ in range(2)}), 1)
            back = torch.from_dlpack(tensor)
            self.assertEqual((back.dtype, back.data_ptr()), (kind, own.data_ptr()))
            self.assertTrue(torch.equal(back.view(torch.uint8), own.view(torch.uint8)))

    def test_strided_empty_expanded_and_without_axes(self):
        base = torch.arange(24.0).reshape(2, 3, 4)
        for own in (base.transpose(0, 2), base[:, 1:], base[:0], torch.tensor(3.0), base[:, :1].expand(2, 5, 4)):
            tensor = headroom.from_dlpack(own)
            numpy.testing.assert_array_equal(tensor.copy().numpy(), own.numpy())
            self.assertTrue(torch.equal(torch.from_dlpack(tensor), own))

    def test_negated_views_are_copied_with_their_sign(self):
        own = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
        self.assertTrue(own.is_neg())
        numpy.testing.assert_array_equal(headroom.from_dlpack(own).copy().numpy(), own.resolve_neg().numpy())

    def test_gradients_and_conjugates_are_refused(self):
        with self.assertRaisesRegex(BufferError, "(?i)grad"):
            headroom.from_dlpack(torch.zeros(2, requires_grad=True))

    def test_a_session_on_tensors_of_torch(self):
        session = tiny_session()
        inputs = {name: torch.from_numpy(x) for name, x in random_inputs(session).items()}
        sample = torch.from_dlpack(session(**inputs))
        own = torch.empty_like(sample)
        session.bind_output("sample", own)
        aligned = torch.from_numpy(headroom.empty(inputs["hidden_states"].shape))
        aligned.copy_(inputs["hidden_states"])
        session.bind_input("hidden_states", aligned, copy=False)
        session.run()
        self.assertTrue(torch.equal(own, sample))


if __name__ == "__main__":
    unittest.main()
