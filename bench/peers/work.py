"""The subject of a result and the hash of its work, as docs/result.schema.json defines them. Needs nothing but
Python.
"""

import json


def work_hash(subject):
    """As docs/result.schema.json defines it: equal work has equal hashes, whoever ran it."""
    state, mask = 0xCBF29CE484222325, 2**64 - 1
    request = json.dumps(subject["request"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for text in ("headroom.work/1", subject["kind"], subject["name"], request):
        data = text.encode()
        for byte in len(data).to_bytes(8, "little") + data:
            state = ((state ^ byte) * 0x100000001B3) & mask
    state = ((state ^ (state >> 33)) * 0xFF51AFD7ED558CCD) & mask
    state = ((state ^ (state >> 33)) * 0xC4CEB9FE1A85EC53) & mask
    return f"{state ^ (state >> 33):016x}"


def forward_subject(model, image_tokens, batch, text_tokens, reference_tokens=0):
    """The work of one forward pass, as `headroom bench` names it."""
    request = {"pass": "forward", "batch": batch, "image_tokens": image_tokens, "text_tokens": text_tokens}
    return {"kind": "model", "name": model, "request": request | ({"reference_tokens": reference_tokens} if reference_tokens else {})}


def denoise_subject(model, rows, columns, images, steps, text_tokens, guidance):
    """The work of a whole request, as `headroom run`, `ladder` and `sweep` name it."""
    return {"kind": "model", "name": model,
            "request": {"classifier_free_guidance": False, "guidance_scale": guidance, "images": images, "steps": steps,
                        "text_tokens": text_tokens, "token_columns": columns, "token_rows": rows}}
