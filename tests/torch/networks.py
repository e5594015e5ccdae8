"""Networks of torchvision, timm and transformers with seeded weights: nothing is downloaded."""

import timm
import torch
import torchvision
import transformers
from torchvision.models.vision_transformer import VisionTransformer


def image(full, size=64):
    return torch.randn(1, 3, 224, 224) if full else torch.randn(2, 3, size, size)


def _vision(name, **options):
    def make(full):
        return getattr(torchvision.models, name)(weights=None, **options).eval(), (image(full),)

    return make


def _segmentation(full):
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)
    return model.eval(), (image(full),)


def _vit(full):
    size, patch, layers, heads, width = (224, 16, 6, 6, 384) if full else (32, 8, 2, 4, 64)
    return VisionTransformer(size, patch, layers, heads, width, 2 * width, num_classes=10).eval(), (image(full, size),)


def _timm(name, size=64, **options):
    def make(full):
        return timm.create_model(name, pretrained=False, **options).eval(), (image(full, size),)

    return make


def _language(kind, options):
    """A model of transformers by its configuration, which follows from width, layers and heads."""

    def make(full):
        sizes = options(512, 4, 8) if full else options(64, 2, 4)
        config = getattr(transformers, f"{kind}Config")(vocab_size=100, use_cache=False, **sizes)
        named = {"Bert": "BertModel", "GPT2": "GPT2LMHeadModel", "T5": "T5EncoderModel"}.get(kind)
        model = getattr(transformers, named or f"{kind}Model")(config).eval()
        return model, (torch.randint(0, 100, (1, 128) if full else (2, 12)),)

    return make


def _encoder(width, layers, heads):
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * width,
    }


def _grouped(width, layers, heads):
    return {**_encoder(width, layers, heads), "num_key_value_heads": heads // 2}


def made(name, full=False):
    """The network and its inputs: small ones, or such as are used, of one image of 224 x 224 or 128 tokens.
    Weights that start as zeros get values: else results would be zeros."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name](full)
    with torch.no_grad():
        for weights in model.parameters():
            if not weights.any():
                weights.normal_(std=0.1)
    return model, inputs


NETWORKS = {
    "resnet18": _vision("resnet18"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "densenet121": _vision("densenet121"),
    "squeezenet1_1": _vision("squeezenet1_1"),
    "shufflenet_v2": _vision("shufflenet_v2_x0_5"),
    "googlenet": _vision("googlenet", init_weights=False, aux_logits=False),
    "mnasnet": _vision("mnasnet0_5"),
    "regnet_y": _vision("regnet_y_400mf"),
    "swin_t": _vision("swin_t"),
    "vit": _vit,
    "lraspp": _segmentation,
    "timm mixer": _timm("mixer_s32_224", 224),
    "timm convnextv2": _timm("convnextv2_atto"),
    "timm mobilevitv2": _timm("mobilevitv2_050"),
    "timm ghostnet": _timm("ghostnet_050"),
    "timm resmlp": _timm("resmlp_12_224", 224),
    "timm poolformer": _timm("poolformer_s12"),
    "bert": _language("Bert", _encoder),
    "gpt2": _language("GPT2", lambda w, n, h: {"n_embd": w, "n_layer": n, "n_head": h}),
    "distilbert": _language("DistilBert", lambda w, n, h: {"dim": w, "n_layers": n, "n_heads": h, "hidden_dim": 2 * w}),
    "roberta": _language("Roberta", _encoder),
    "electra": _language("Electra", lambda w, n, h: {"embedding_size": w, **_encoder(w, n, h)}),
    "t5": _language("T5", lambda w, n, h: {"d_model": w, "d_kv": w // h, "d_ff": 2 * w, "num_layers": n, "num_heads": h}),
    "opt": _language(
        "OPT",
        lambda w, n, h: {
            "hidden_size": w,
            "num_hidden_layers": n,
            "num_attention_heads": h,
            "ffn_dim": 2 * w,
            "word_embed_proj_dim": w,
        },
    ),
    "llama": _language("Llama", _grouped),
    "qwen2": _language("Qwen2", _grouped),
    "gemma": _language("Gemma", lambda w, n, h: {"head_dim": w // h, **_grouped(w, n, h)}),
    "mamba": _language("Mamba", lambda w, n, h: {"hidden_size": w, "num_hidden_layers": n}),
}
