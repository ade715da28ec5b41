// What is derived is right: the backward kernels of a chain, run one after the other by the interpreter, against finite
// differences of the chain's forward pass. All tensors are f32, so that no rounding hides an error.
#include <cmath>
#include <random>

#include "compiler/interpreter/interpreter.h"
#include "compiler/lowering/differentiate.h"
#include "tests/chain/chain_support.h"

using namespace epifuse;
using namespace epifuse::test;
using interpreter::Buffers;
using interpreter::HostTensor;

namespace {

struct Chain {
  std::string name, forward;
  std::vector<std::string> kernels;
  std::string result;               // of the last kernel
  std::vector<std::string> inputs;  // whose gradients are compared
};

class Step {
 public:
  explicit Step(const Chain& chain) : chain_(chain), random_(7) {
    Diagnostics diagnostics;
    forward_ = load_forward(chain.forward, diagnostics);
    const std::string text = derive(chain.forward, chain.kernels);
    INFO(text);
    MemorySource source({});
    backward_ = load_program("backward.epi", text, source, diagnostics);
    std::vector<std::string> derived = kernel_names(backward_);
    for (const std::string& kernel : chain.kernels) {
      const auto saving = std::find(derived.begin(), derived.end(), kernel);
      forward_graphs_.push_back(graph(saving == derived.end() ? forward_ : backward_, kernel));
      if (saving != derived.end()) derived.erase(saving);
    }
    for (const std::string& kernel : derived) backward_graphs_.push_back(graph(backward_, kernel));
    REQUIRE(diagnostics.all().empty());
    for (const ir::Graph& graph : forward_graphs_) make_inputs(graph);
  }

  void compare() {
    Buffers all = run(forward_graphs_, inputs_);
    seed_ = all.at(chain_.result);
    fill(seed_);
    all["d" + chain_.result] = seed_;
    all = run(backward_graphs_, std::move(all));
    for (const std::string& name : chain_.inputs) {
      INFO(chain_.name << ": the gradient of " << name);
      REQUIRE(all.count("d" + name) == 1);
      const HostTensor& gradient = all.at("d" + name);
      REQUIRE(gradient.extents == inputs_.at(name).extents);
      double difference = 0, size = 0;
      for (int64_t i = 0; i < gradient.elements(); ++i) {
        const double reference = slope(name, i), derived = interpreter::load_one(gradient, i);
        difference += (derived - reference) * (derived - reference);
        size += reference * reference;
      }
      REQUIRE(size > 0);
      CHECK(std::sqrt(difference / size) < 1e-3);
    }
  }

 private:
  static ir::Graph graph(const Program& program, const std::string& kernel) {
    Diagnostics diagnostics;
    ResolveOptions options;
    options.require_bound = true;
    std::optional<ir::Graph> graph = resolve(program, kernel, options, diagnostics);
    INFO(diagnostics.print());
    REQUIRE(graph);
    return lowering::differentiate(std::move(*graph));
  }

  void fill(HostTensor& tensor) {
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < tensor.elements(); ++i) interpreter::store_one(tensor, i, normal(random_));
  }

  // Three rows, then two for E = 2; five for a dyn.
  void make_inputs(const ir::Graph& graph) {
    const auto extent = [&](const ir::Extent& e) {
      return graph.fixed_value(e).value_or(e.times * (graph.dims[e.dim].name == "B" ? 2 : 5));
    };
    for (const ir::Input& input : graph.inputs) {
      if (inputs_.count(input.tensor.name) != 0 || is_output(input.tensor.name)) continue;
      std::vector<int64_t> extents;
      for (const ir::Extent& e : input.tensor.shape) extents.push_back(extent(e));
      HostTensor tensor = interpreter::make_tensor(input.tensor.type.storage(), extents);
      fill(tensor);
      inputs_[input.tensor.name] = std::move(tensor);
    }
    HostTensor ends = interpreter::make_tensor(Storage::i32, {2});
    interpreter::store_one(ends, 0, 3);
    interpreter::store_one(ends, 1, 5);
    inputs_["M.ends"] = std::move(ends);
  }

  bool is_output(const std::string& name) const {
    for (const ir::Graph& graph : forward_graphs_)
      for (const ir::Output& output : graph.outputs)
        if (output.tensor.name == name) return true;
    return false;
  }

  static Buffers run(const std::vector<ir::Graph>& graphs, Buffers all) {
    for (const ir::Graph& graph : graphs) {
      Buffers bound;
      for (const auto& [name, tensor] : all) {
        const auto is = [&, &wanted = name](const auto& holder) { return holder.tensor.name == wanted; };
        if (std::any_of(graph.inputs.begin(), graph.inputs.end(), is) ||
            std::any_of(graph.outputs.begin(), graph.outputs.end(), is) || name == "M.ends")
          bound[name] = tensor;
      }
      if (std::none_of(graph.dims.begin(), graph.dims.end(), [](const auto& dim) { return dim.name == "M"; }))
        bound.erase("M.ends");
      Result<Buffers> outputs = interpreter::run(graph, bound, {}, nullptr, 1);
      INFO(ir::print(graph));
      INFO((outputs ? "" : outputs.error().message));
      REQUIRE(outputs);
      for (auto& [name, tensor] : *outputs) all[name] = std::move(tensor);
    }
    return all;
  }

  double loss() const {
    const Buffers all = run(forward_graphs_, inputs_);
    const HostTensor& result = all.at(chain_.result);
    double sum = 0;
    for (int64_t i = 0; i < result.elements(); ++i)
      sum += interpreter::load_one(result, i) * interpreter::load_one(seed_, i);
    return sum;
  }

  double slope(const std::string& name, int64_t at) {
    constexpr double step = 1.0 / 1024;
    HostTensor& tensor = inputs_.at(name);
    const double value = interpreter::load_one(tensor, at);
    interpreter::store_one(tensor, at, value + step);
    const double upper = interpreter::load_one(tensor, at), above = loss();
    interpreter::store_one(tensor, at, value - step);
    const double lower = interpreter::load_one(tensor, at), below = loss();
    interpreter::store_one(tensor, at, value);
    return (above - below) / (upper - lower);
  }

  const Chain& chain_;
  std::mt19937 random_;
  Program forward_, backward_;
  std::vector<ir::Graph> forward_graphs_, backward_graphs_;
  Buffers inputs_;
  HostTensor seed_;
};

const std::string fc2 = R"(
kernel fc2 {
  dim E = 2, H = 5, I = 4
  group M by E
  in a : f32[M, I]
  in w2 : f32[E, H, I]
  out z : f32[M, H] = gemm(a, w2)
}
)";

const std::vector<Chain> chains = {
    {"SwiGLU with probability",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  in x : f32[M, K]
  in w1 : f32[E, 2*I, K]
  in prob : f32[M] = 1
  h = gemm(x, w1)
  gate, up = split(h)
  act = swiglu(gate, up) * prob
  out pre : f32[M, 2*I] = h
  out a : f32[M, I] = act
}
)" + fc2,
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2", "prob"}},
    {"the clamped GLU with interleaved weights and biases, probability on fc2",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  param alpha = 1.702
  param limit = 1.5
  in x : f32[M, K]
  in w1 : f32[E, 2*I, K]
  in b1 : f32[E, 2*I]
  h = gemm(x, w1) + b1
  gate, up = split(h, 1)
  out a : f32[M, I] = swiglu_oai(gate, up, alpha, limit, 1)
}
kernel fc2 {
  dim E = 2, H = 5, I = 4
  group M by E
  in a : f32[M, I]
  in w2 : f32[E, H, I]
  in b2 : f32[E, H]
  in prob : f32[M]
  out z : f32[M, H] = (gemm(a, w2) + b2) * prob
}
)",
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2", "b1", "b2", "prob"}},
    {"GeGLU with an unnamed product, prob * bias and a residual",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  in x : f32[M, K]
  in w1 : f32[E, 2*I, K]
  in prob : f32[M]
  gate, up = split(gemm(x, w1))
  out a : f32[M, I] = geglu_tanh(gate, up) * prob
}
kernel fc2 {
  dim E = 2, H = 5, I = 4
  group M by E
  in a : f32[M, I]
  in w2 : f32[E, H, I]
  in b2 : f32[E, H]
  in prob : f32[M]
  in r : f32[M, H]
  t = prob * b2
  out z : f32[M, H] = gemm(a, w2) + t - 2 * r
}
)",
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2", "b2", "prob", "r"}},
    {"squared ReLU",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  in x : f32[M, K]
  in w1 : f32[E, I, K]
  in alpha : f32[E]
  in b1 : f32[E, I]
  h = gemm(x, w1) * 2 - b1
  out pre : f32[M, I] = h
  out a : f32[M, I] = srelu(h) * alpha
}
)" + fc2,
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2", "b1", "alpha"}},
    {"a dense MLP of three layers",
     R"(
kernel fc1 {
  dim K = 6, I = 4
  dyn S
  in x : f32[S, K]
  in w1 : f32[I, K]
  in b1 : f32[I]
  out a : f32[S, I] = gelu_erf(gemm(x, w1) + b1)
}
kernel fc2 {
  dim I = 4, H = 5
  dyn S
  in a : f32[S, I]
  in w2 : f32[H, I]
  in b2 : f32[H]
  in s : f32
  out c : f32[S, H] = (gemm(a, w2) + b2) * s
}
kernel fc3 {
  dim H = 5, N = 3
  dyn S
  in c : f32[S, H]
  in w3 : f32[N, H]
  out z : f32[S, N] = tanh(gemm(c, w3))
}
)",
     {"fc1", "fc2", "fc3"},
     "z",
     {"x", "w1", "b1", "w2", "b2", "s", "w3"}},
    {"a batch of rows with one weight, and one with a weight each",
     R"(
kernel fc1 {
  dim K = 6, I = 4
  dyn B, S
  in x : f32[B, S, K]
  in w1 : f32[I, K]
  out a : f32[B, S, I] = silu(gemm(x, w1))
}
kernel fc2 {
  dim I = 4, H = 5
  dyn B, S
  in a : f32[B, S, I]
  in w2 : f32[B, H, I]
  out z : f32[B, S, H] = gemm(a, w2)
}
)",
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2"}},
    {"a user's activation: a tanh-clamped squared GLU",
     R"(
fn tanh_clamp(x, c) = c * tanh(x / c)
fn my_glu(gate, up, c) = square(relu(tanh_clamp(gate, c))) * tanh_clamp(up, c)
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  const c = 2
  in x : f32[M, K]
  in w1 : f32[E, 2*I, K]
  gate, up = split(gemm(x, w1))
  out a : f32[M, I] = my_glu(gate, up, c)
}
)" + fc2,
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2"}},
    {"gate and up as two tensors, with a bias that both have",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  in x : f32[M, K]
  in wg : f32[E, I, K]
  in wu : f32[E, I, K]
  in b : f32[E, I]
  in prob : f32[M]
  gate = gemm(x, wg) + prob * b
  up = gemm(x, wu) + prob * b
  out a : f32[M, I] = silu(gate) * up
}
)" + fc2,
     {"fc1", "fc2"},
     "z",
     {"x", "wg", "wu", "w2", "b", "prob"}},
    {"one layer alone, with what scales the product",
     R"(
kernel fc1 {
  dim E = 2, K = 6, I = 4
  group M by E
  in x : f32[M, K]
  in w1 : f32[E, 2*I, K]
  in b1 : f32[E, 2*I]
  in alpha : f32[E]
  h = gemm(x, w1) * alpha + b1
  gate, up = split(h, 1)
  out a : f32[M, I] = silu(gate) * up
}
)",
     {"fc1"},
     "a",
     {"x", "w1", "b1", "alpha"}},
    {"residuals: the chain's own input in two epilogues, and an input that two kernels add",
     R"(
kernel fc1 {
  dim E = 2, H = 5, I = 4
  group M by E
  in x : f32[M, H]
  in w1 : f32[E, I, H]
  in r : f32[M, I]
  out a : f32[M, I] = tanh(gemm(x, w1) * 2 + r)
}
kernel fc2 {
  dim E = 2, H = 5, I = 4
  group M by E
  in a : f32[M, I]
  in w2 : f32[E, H, I]
  in x : f32[M, H]
  out c : f32[M, H] = tanh(gemm(a, w2)) * x
}
kernel fc3 {
  dim E = 2, H = 5, I = 4
  group M by E
  in c : f32[M, H]
  in w3 : f32[E, I, H]
  in r : f32[M, I]
  out d : f32[M, I] = gemm(c, w3) + r
}
kernel fc4 {
  dim E = 2, H = 5, I = 4
  group M by E
  in d : f32[M, I]
  in w4 : f32[E, H, I]
  in x : f32[M, H]
  out z : f32[M, H] = gemm(d, w4) + x
}
)",
     {"fc1", "fc2", "fc3", "fc4"},
     "z",
     {"x", "r", "w1", "w2", "w3", "w4"}},
    {"a residual around the chain",
     R"(
kernel fc1 {
  dim H = 5, I = 4
  dyn S
  in x : f32[S, H]
  in w1 : f32[I, H]
  in al : f32
  pre = gemm(x, w1) * al
  out pre : f32[S, I] = pre
  out a : f32[S, I] = tanh(pre)
}
kernel fc2 {
  dim H = 5, I = 4
  dyn S
  in a : f32[S, I]
  in w2 : f32[H, I]
  in x : f32[S, H]
  out z : f32[S, H] = gemm(a, w2) + x
}
)",
     {"fc1", "fc2"},
     "z",
     {"x", "w1", "w2"}},
    {"what each row is scaled by, before a value that is stored, and in another kernel",
     R"(
kernel fc1 {
  dim E = 2, H = 5, I = 4
  group M by E
  in x : f32[M, H]
  in w1 : f32[E, I, H]
  in p : f32[M]
  pre = gemm(x, w1) * p
  out pre : f32[M, I] = pre
  out a : f32[M, I] = tanh(pre)
}
kernel fc2 {
  dim E = 2, H = 5, I = 4
  group M by E
  in a : f32[M, I]
  in w2 : f32[E, H, I]
  in x : f32[M, H]
  in p : f32[M]
  h = gemm(a, w2) * x
  out h : f32[M, H] = h
  out z : f32[M, H] = tanh(h) + p
}
)",
     {"fc1", "fc2"},
     "z",
     {"x", "p", "w1", "w2"}},
    {"an activation of one's own",
     own_activation_layers("f32", "E = 2, K = 6, I = 4"),
     {"fc1", "fc2"},
     "y",
     {"x", "w1", "w2", "prob"}},
};

}  // namespace

TEST_CASE("the derived kernels of a chain give the slopes of its forward pass") {
  for (const Chain& chain : chains) {
    INFO(chain.name);
    Step(chain).compare();
  }
}
