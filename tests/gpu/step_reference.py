"""Inputs for the training steps of specs/, and what their kernels must make of them: the network by torch operations and
autograd, and each kernel in float64 from the inputs as they are stored."""

import torch

PLAIN = (torch.bfloat16, torch.float32)


class Problem:
    """Sizes, and inputs that bf16 holds. One for each (family, counts)."""

    def __init__(self, family, counts, hidden, width, device, seed=0):
        self.family, self.counts = family, counts
        rows, experts = sum(counts), len(counts)
        self.sizes = {"E": experts, "H": hidden, "I": width, "M": rows, "S": rows}
        generator = torch.Generator(device=device).manual_seed(seed)

        def draw(*shape, size=1.0, dtype=torch.bfloat16):
            return (torch.randn(*shape, device=device, generator=generator) * size).to(dtype)

        columns = 2 * width if family.gated else width
        pool = {"x": draw(rows, hidden), "w1": draw(experts, columns, hidden, size=family.gain / hidden**0.5),
                "w2": draw(experts, hidden, width, size=1 / width**0.5), "dy": draw(rows, hidden)}
        if family.biased:
            pool["b1"], pool["b2"] = draw(experts, columns), draw(experts, hidden)
        if family.prob:
            pool["prob"] = torch.rand(rows, device=device, generator=generator)
        if family.dense:
            pool["w1"], pool["w2"] = pool["w1"][0], pool["w2"][0]
        else:
            pool["M.ends"] = torch.tensor(counts, device=device).cumsum(0).to(torch.int32)
        self.pool = pool
        # Of h and dh where a kernel is run on its own.
        self.alone = {"pre": draw(rows, columns, size=family.gain), "dh": draw(rows, columns), "act": draw(rows, width),
                      "dyp": draw(rows, hidden)}

    def slices(self):
        """Rows of each expert."""
        end = 0
        for count in self.counts:
            yield slice(end, end + count)
            end += count

    def per_expert(self, name, tensor):
        """(expert, part) of a tensor whose first dimension is tokens or experts."""
        if self.family.dense:
            return [(0, tensor)]
        if name[:2] in ("dw", "db"):
            return list(enumerate(tensor))
        return [(e, tensor[rows]) for e, rows in enumerate(self.slices())]


def weight(problem, tensors, name, expert):
    return tensors[name] if problem.family.dense else tensors[name][expert]


def forward(problem, tensors):
    """y of a whole network on leaves of any dtype, by torch operations alone."""
    family, parts = problem.family, []
    for e, rows in enumerate(problem.slices()):
        h = tensors["x"][rows] @ weight(problem, tensors, "w1", e).T
        h = h + tensors["b1"][e] if family.biased else h
        act, prob = family.activation(h), tensors["prob"][rows, None] if family.prob else None
        if family.biased:
            y = ((act @ tensors["w2"][e].T + tensors["b2"][e]) * prob).to(act.dtype)
        else:
            act = (act * prob).to(act.dtype) if family.prob else act
            y = act @ weight(problem, tensors, "w2", e).T
        parts.append(y)
    return torch.cat(parts)


GRADIENTS = {"x": "dx", "w1": "dw1", "w2": "dw2", "b1": "db1", "b2": "db2", "prob": "dprob"}


def autograd(problem, dtype):
    """Gradients of the network in `dtype` from the same stored inputs; the probability stays f32 under bf16."""
    leaves = {name: problem.pool[name].to(torch.float32 if name == "prob" and dtype == torch.bfloat16 else dtype)
              .detach().clone().requires_grad_() for name in GRADIENTS if name in problem.pool}
    forward(problem, leaves).backward(problem.pool["dy"].to(dtype))
    return {GRADIENTS[name]: leaf.grad.double() for name, leaf in leaves.items()}


def stored_reference(problem, pool, kernel):
    """What a kernel must compute, in float64 from the inputs that it read; and for a sum the squares of its terms."""
    family, d = problem.family, {name: tensor.double() for name, tensor in pool.items() if tensor.dtype in PLAIN}
    expected, squares = {}, {}

    def by_expert(name, function):
        parts = [function(e, rows) for e, rows in enumerate(problem.slices())]
        expected[name] = torch.cat(parts) if name[:2] not in ("dw", "db") else parts[0] if family.dense else torch.stack(parts)

    kernel = kernel.removesuffix("_mxfp8").removesuffix("_f32").removesuffix("_bf16")
    if kernel == "fc1":
        by_expert("pre", lambda e, r: d["x"][r] @ weight(problem, d, "w1", e).T + (d["b1"][e] if family.biased else 0))
        prob = d["prob"][:, None] if family.prob and not family.biased else 1
        expected["act"] = family.activation(expected["pre"]) * prob
    elif kernel == "fc2":
        bias = lambda e, r: d["b2"][e] if family.biased else 0  # noqa: E731
        scale = lambda r: d["prob"][r, None] if family.biased else 1  # noqa: E731
        by_expert("y", lambda e, r: (d["act"][r] @ weight(problem, d, "w2", e).T + bias(e, r)) * scale(r))
    elif kernel == "fc2_dgrad":
        by_expert("da", lambda e, r: d["dy"][r] @ weight(problem, d, "w2", e))
        da, pre = expected.pop("da"), d["pre"].requires_grad_()
        act = family.activation(pre)
        prob = d["prob"][:, None] if family.prob else torch.ones_like(act[:, :1])
        (expected["dh"],) = torch.autograd.grad(act * prob, pre, da)
        if family.prob:
            expected["dprob"], squares["dprob"] = (da * act.detach()).sum(1), (da * act.detach()).square().sum(1)
        if family.biased:
            by_expert("db1", lambda e, r: expected["dh"][r].sum(0))
            squares["db1"] = torch.stack([expected["dh"][rows].square().sum(0) for rows in problem.slices()])
    elif kernel == "fc2_bias_bwd":
        terms = torch.cat([d["dy"][rows] * d["b2"][e] for e, rows in enumerate(problem.slices())])
        expected["dprob"], squares["dprob"] = terms.sum(1), terms.square().sum(1)  # added to what was there
        expected["dyp"] = d["dy"] * d["prob"][:, None]
        by_expert("db2", lambda e, r: expected["dyp"][r].sum(0))
        squares["db2"] = torch.stack([expected["dyp"][rows].square().sum(0) for rows in problem.slices()])
    elif kernel == "fc1_dgrad":
        by_expert("dx", lambda e, r: d["dh"][r] @ weight(problem, d, "w1", e))
    elif kernel == "fc2_wgrad":
        operand = d["dyp"] if family.biased else d["dy"]
        by_expert("dw2", lambda e, r: operand[r].T @ d["act"][r])
    elif kernel == "fc1_wgrad":
        by_expert("dw1", lambda e, r: d["dh"][r].T @ d["x"][r])
    return expected, squares


def dequantised(problem, pool, name):
    """An MXFP8 output as float64 rows of tokens; of a transposed one, each group from a multiple of 128."""
    codes, scales = pool[name].view(torch.float8_e4m3fn).double(), pool[name + ".scale"]
    values = codes * torch.exp2(scales.double() - 127).repeat_interleave(32, 1)[:, : codes.shape[1]]
    if not name.endswith("_t"):
        return values
    parts, start = [], 0
    for count in problem.counts:
        parts.append(values[:, start : start + count].T)
        start += count if problem.family.dense else -(-count // 128) * 128
    return torch.cat(parts)


def quantised(problem, values, transposed):
    """float64 as MXFP8 gives it back: blocks of 32 columns, or of 32 tokens of one expert."""
    def blocks(v):  # along the last dimension
        rows, columns = v.shape
        padded = torch.nn.functional.pad(v, (0, -columns % 32)).reshape(rows, -(-columns // 32), 32)
        exponent = torch.ceil(torch.log2(padded.abs().amax(2, keepdim=True) / 448)).clamp(-127, 127)
        codes = (padded * torch.exp2(-exponent)).to(torch.float8_e4m3fn).double()
        return (codes * torch.exp2(exponent)).flatten(1)[:, :columns]
    return torch.cat([blocks(values[rows].T).T for rows in problem.slices()]) if transposed else blocks(values)
