// A multi-layer perceptron on the residual: two hidden layers, trained by Adam (Kingma and Ba, 2015) from the start
// each time.

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "cost/learned/residuals.h"

namespace fettle {
namespace {

constexpr size_t kLeastRows = 16;
constexpr size_t kHidden = 32;
constexpr size_t kBatch = 64;
constexpr int kSteps = 1200;
constexpr float kRate = 4e-3f;
constexpr float kDecay = 3e-1f;  // of weights, against overfitting

/// y = W x + b, with what Adam keeps of each weight.
struct Layer {
  size_t in = 0, out = 0;
  std::vector<float> weights;  // out x (in + 1), the bias last
  std::vector<float> gradient, mean, square;

  Layer() = default;
  Layer(size_t n_in, size_t n_out, RandomStream& stream) : in(n_in), out(n_out), weights(n_out * (n_in + 1)) {
    const double scale = std::sqrt(6.0 / static_cast<double>(n_in));  // He et al., 2015
    for (size_t o = 0; o < out; ++o)
      for (size_t i = 0; i < in; ++i)
        weights[o * (in + 1) + i] = static_cast<float>(scale * (2 * stream.uniform() - 1));
    gradient.assign(weights.size(), 0);
    mean = square = gradient;
  }

  void forward(const float* x, float* y, bool relu) const {
    for (size_t o = 0; o < out; ++o) {
      const float* row = &weights[o * (in + 1)];
      float sum = row[in];
      for (size_t i = 0; i < in; ++i) sum += row[i] * x[i];
      y[o] = relu ? std::max(sum, 0.0f) : sum;
    }
  }
  // dy: ∂loss/∂y, already zero where the output was cut off. Adds to the gradient; dx may be null.
  void backward(const float* x, const float* dy, float* dx) {
    if (dx) std::fill(dx, dx + in, 0.0f);
    for (size_t o = 0; o < out; ++o) {
      if (dy[o] == 0) continue;
      float* g = &gradient[o * (in + 1)];
      const float* row = &weights[o * (in + 1)];
      for (size_t i = 0; i < in; ++i) g[i] += dy[o] * x[i];
      g[in] += dy[o];
      if (!dx) continue;
      for (size_t i = 0; i < in; ++i) dx[i] += dy[o] * row[i];
    }
  }
  void step(int t, float rate) {
    const float a = 1 - std::pow(0.9f, static_cast<float>(t)), b = 1 - std::pow(0.999f, static_cast<float>(t));
    for (size_t k = 0; k < weights.size(); ++k) {
      mean[k] = 0.9f * mean[k] + 0.1f * gradient[k];
      square[k] = 0.999f * square[k] + 0.001f * gradient[k] * gradient[k];
      weights[k] -= rate * (mean[k] / a / (std::sqrt(square[k] / b) + 1e-8f) + kDecay * weights[k]);
      gradient[k] = 0;
    }
  }
};

class Mlp : public ResidualModel {
 public:
  explicit Mlp(uint64_t seed) : seed_(seed) {}
  std::string name() const override { return "mlp"; }

 private:
  void correct(std::span<const CandidateFeatures> candidates, std::vector<double>& seconds) override {
    if (!trained_) return;
    const std::vector<float> rows = data().rows_of(candidates);
    Activations a(data().features());
    for (size_t r = 0; r < candidates.size(); ++r) {
      const float residual = forward(&rows[r * data().features()], a);
      seconds[r] *= std::exp(static_cast<double>(std::clamp(residual, -Residuals::kLargest, Residuals::kLargest)));
    }
  }

  struct Activations {
    explicit Activations(size_t n) : x(n) {}
    std::vector<float> x;
    float first[kHidden] = {}, second[kHidden] = {}, y = 0;
  };

  float forward(const float* row, Activations& a) const {
    for (size_t f = 0; f < a.x.size(); ++f) a.x[f] = std::clamp((row[f] - center_[f]) * scale_[f], -8.0f, 8.0f);
    layers_[0].forward(a.x.data(), a.first, true);
    layers_[1].forward(a.first, a.second, true);
    layers_[2].forward(a.second, &a.y, false);
    return a.y;
  }

  // Features of mean 0 and variance 1.
  void standardise() {
    const size_t n = data().features(), rows = data().rows();
    std::vector<double> sum(n), squares(n);
    for (size_t r = 0; r < rows; ++r)
      for (size_t f = 0; f < n; ++f) {
        const double value = static_cast<double>(data().values()[r * n + f]);
        sum[f] += value;
        squares[f] += value * value;
      }
    center_.resize(n);
    scale_.resize(n);
    for (size_t f = 0; f < n; ++f) {
      const double mean = sum[f] / static_cast<double>(rows);
      const double variance = squares[f] / static_cast<double>(rows) - mean * mean;
      center_[f] = static_cast<float>(mean);
      scale_[f] = variance > 1e-9 ? static_cast<float>(1 / std::sqrt(variance)) : 0.0f;  // constants tell nothing
    }
  }

  void train() override {
    trained_ = false;
    if (data().rows() < kLeastRows) return;
    standardise();
    RandomStream stream{seed_, data().rows()};
    const size_t n = data().features();
    layers_[0] = Layer(n, kHidden, stream);
    layers_[1] = Layer(kHidden, kHidden, stream);
    layers_[2] = Layer(kHidden, 1, stream);
    Activations a(n);
    float d_first[kHidden], d_second[kHidden];
    for (int t = 1; t <= kSteps; ++t) {
      for (size_t b = 0; b < kBatch; ++b) {
        const size_t r = stream.below(data().rows());
        const float error = forward(&data().values()[r * n], a) - data().labels()[r];
        const float dy = 2 * error * data().weights()[r] / static_cast<float>(kBatch);
        layers_[2].backward(a.second, &dy, d_second);
        for (size_t h = 0; h < kHidden; ++h)
          if (a.second[h] <= 0) d_second[h] = 0;
        layers_[1].backward(a.first, d_second, d_first);
        for (size_t h = 0; h < kHidden; ++h)
          if (a.first[h] <= 0) d_first[h] = 0;
        layers_[0].backward(a.x.data(), d_first, nullptr);
      }
      const float rate = kRate * (1 - 0.9f * static_cast<float>(t) / kSteps);
      for (Layer& layer : layers_) layer.step(t, rate);
    }
    trained_ = true;
  }

  const uint64_t seed_;
  bool trained_ = false;
  std::vector<float> center_, scale_;
  Layer layers_[3];
};

}  // namespace

std::unique_ptr<CostModel> make_mlp(uint64_t seed) { return std::make_unique<Mlp>(seed); }

}  // namespace fettle
