"""Keys of Hugging Face configurations that change neither parameters nor FLOPs of a model."""

import re
from typing import Final

_HARMLESS: Final = re.compile(
    r"""
      _.*                                                   # private, such as _name_or_path
    | .*_token_ids? | tokenizer_.* | unk_.*                 # tokens and their texts
    | .*_eps | .*_epsilon | eps                             # of norms
    | init_.* | initializer_.* | .*_init_std                # how weights begin
    | rope_.* | rotary_.* | partial_rotary_factor | .*position_embedding_type | offset_alibi
    | original_max_position_embeddings | initial_context_length | n_ctx | max_length
    | architectures | auto_map | model_type | transformers_version | is_decoder | use_cache
    | (torch_)?dtype | quantization_config | pretraining_tp | device_map | ep_size
    | id2label | label2id | num_labels | problem_type | task_specific_params | summary_.*
    | classifier_dropout | return_dict | output_.* | gradient_checkpointing | verbose
    | hidden_act | activation_function | swiglu_limit | logit_scale | loss_fn | clip_qkv
    | scale_attn_.* | reorder_and_upcast_attn | softmax_scale | embedding_fraction
    | attention_softmax_in_fp32 | masked_softmax_fusion | bias_dropout_fusion | skip_bias_add(_qkv)?
    | apply_residual_connection_post_layernorm | slow_but_exact
    | attn_impl | attn_uses_sequence_id | alibi_bias_max | prefix_lm | fc_type
    | use_pad_tok_in_ffn
    | .*_loss_coef | aux_loss_alpha | seq_aux | router_jitter_noise
    | norm_topk_prob | scoring_func | routed_scaling_factor | topk_method
    | max_window_layers
    """,
    re.VERBOSE,
)


def is_harmless(key: str) -> bool:
    """Whether a key is known to leave the shape as it is.

    >>> is_harmless("rms_norm_eps"), is_harmless("num_key_value_heads")
    (True, False)
    """
    return _HARMLESS.fullmatch(key) is not None
