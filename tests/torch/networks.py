"""Networks of torchvision, timm and transformers, small, with seeded weights: nothing is downloaded."""

import timm
import torch
import torchvision
import transformers
from torchvision.models.vision_transformer import VisionTransformer


def image(size=64, batch=2):
    return torch.randn(batch, 3, size, size)


def tokens(count=100, length=12, batch=2):
    return torch.randint(0, count, (batch, length))


def _vision(name, size=64, **options):
    def make():
        return getattr(torchvision.models, name)(weights=None, **options).eval(), (image(size),)

    return make


def _segmentation():
    return torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None).eval(), (image(),)


def _vit():
    return VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10).eval(), (image(32),)


def _timm(name, size=64, **options):
    def make():
        return timm.create_model(name, pretrained=False, **options).eval(), (image(size),)

    return make


def _language(kind, **options):
    """A model of transformers by its configuration."""

    def make():
        config = getattr(transformers, f"{kind}Config")(vocab_size=100, use_cache=False, **options)
        named = {"Bert": "BertModel", "GPT2": "GPT2LMHeadModel", "T5": "T5EncoderModel"}.get(kind)
        model = getattr(transformers, named or f"{kind}Model")(config).eval()
        return model, (tokens(),)

    return make


_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}

def made(name):
    """The network and its inputs. Weights that start as zeros get values: else results would be zeros."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name]()
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
    "bert": _language("Bert", **_SMALL),
    "gpt2": _language("GPT2", n_embd=64, n_layer=2, n_head=4),
    "distilbert": _language("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "roberta": _language("Roberta", **_SMALL),
    "electra": _language("Electra", embedding_size=64, **_SMALL),
    "t5": _language("T5", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
    "opt": _language("OPT", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, word_embed_proj_dim=64),
    "llama": _language("Llama", **_GROUPED),
    "qwen2": _language("Qwen2", **_GROUPED),
    "gemma": _language("Gemma", head_dim=16, **_GROUPED),
    "mamba": _language("Mamba", hidden_size=64, num_hidden_layers=2),
}
