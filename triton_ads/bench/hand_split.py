"""The default ranker split by hand: the mark that the compiler has to reach.

Written as an engineer would who knows the model: everything of the user is computed once, first layers over user and
item are two products and a sum, attention is one product per tile. Same weights, same answers as the model.
"""

# Legend: B users, C tiles, P candidates in a tile, E width of the embedding, N tokens, T events, D token width,
#         H hidden width of the EPNet, S sequences.

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from triton_ads.models.attention import MASKED
from triton_ads.models.epnet import EPNet
from triton_ads.models.hyformer import HyFormer, QueryGenerator
from triton_ads.models.pooling import masked_mean


class HandUser(nn.Module):
    """Once per user: (user_ids, user_dense, sequence_ids) -> the tensors that `HandItem` takes, [B, ...] each."""

    def __init__(self, model: HyFormer) -> None:
        super().__init__()
        self.model = model

    def forward(self, user_ids: Tensor, user_dense: Tensor, sequence_ids: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        assert isinstance(model.epnet, EPNet)
        user = model.embedding.user_side(user_ids, user_dense, sequence_ids)
        features_BE, dense_BE = torch.cat(user.features, 1), user.dense[0]
        assert user.scenario_MG is not None
        weight_HE, bias_H = model.epnet.hidden.weight, model.epnet.hidden.bias
        scenario, first, last = user.scenario_MG.shape[1], features_BE.shape[1], 2 * dense_BE.shape[1]
        own_HE = torch.cat([weight_HE[:, : scenario + first], weight_HE[:, -last : -last // 2]], 1)
        gate_BH = F.linear(torch.cat([user.scenario_MG, features_BE, dense_BE], 1), own_HE, bias_H)

        histories, masks, queries, known = [], [], [], []
        for encode, generate, history in zip(model.encoders, model.generators, user.histories, strict=True):
            assert isinstance(generate, QueryGenerator)
            encoded_BTD = encode(history.events_MTE)
            mean_BD = masked_mean(encoded_BTD, history.valid_MT)
            flat = generate.hidden.weight.shape[1] - mean_BD.shape[1]
            queries.append(F.linear(mean_BD, generate.hidden.weight[:, flat:], generate.hidden.bias))
            histories.append(encoded_BTD)
            masks.append(torch.where(history.valid_MT, 0.0, MASKED))
            known.append(history.valid_MT.any(1).to(encoded_BTD.dtype))
        return (
            features_BE,
            dense_BE,
            gate_BH,
            torch.stack(histories, 1),
            torch.stack(masks, 1),
            torch.stack(queries, 1),
            torch.stack(known, 1),
        )


class HandItem(nn.Module):
    """Per candidate: (item_ids [C, P, Fi], item_dense [C, P, Di], user_of_tile [C], HandUser's) -> scores [C, P, K]."""

    def __init__(self, model: HyFormer) -> None:
        super().__init__()
        self.model = model

    def forward(self, item_ids: Tensor, item_dense: Tensor, user_of_tile: Tensor, *user: Tensor) -> Tensor:
        model = self.model
        assert isinstance(model.epnet, EPNet)
        features_CE, user_dense_CE, gate_CH, histories_CSTD, masks_CST, queries_CSD, known_CS = (
            value.index_select(0, user_of_tile) for value in user
        )
        tiles, candidates = item_ids.shape[0], item_ids.shape[1]
        item = model.embedding.item_side(item_ids.flatten(0, 1), item_dense.flatten(0, 1))
        items_CPE, item_dense_CPE = (
            torch.cat(item.features, 1).unflatten(0, (tiles, candidates)),
            item.dense[0].unflatten(0, (tiles, candidates)),
        )

        weight_HE = model.epnet.hidden.weight
        dense = item_dense_CPE.shape[2]
        start = weight_HE.shape[1] - 2 * dense - items_CPE.shape[2]
        own_HE = torch.cat([weight_HE[:, start : start + items_CPE.shape[2]], weight_HE[:, -dense:]], 1)
        hidden_CPH = F.linear(torch.cat([items_CPE, item_dense_CPE], 2), own_HE) + gate_CH.unsqueeze(1)
        gate_CPE = 2 * torch.sigmoid(model.epnet.gate(torch.relu(hidden_CPH)))
        sizes = [features_CE.shape[1], items_CPE.shape[2], dense, dense]
        g_user, g_item, g_user_dense, g_item_dense = gate_CPE.split(sizes, 2)
        x_CPE = torch.cat(
            [
                g_user * features_CE.unsqueeze(1),
                g_item * items_CPE,
                g_user_dense * user_dense_CE.unsqueeze(1),
                g_item_dense * item_dense_CPE,
            ],
            2,
        )
        tokens_NMD = model.tokenizer(x_CPE.flatten(0, 1))
        flat_MX = tokens_NMD.transpose(0, 1).flatten(1)

        decoded = []
        for s, generate in enumerate(model.generators):
            assert isinstance(generate, QueryGenerator)
            share_MD = F.linear(flat_MX, generate.hidden.weight[:, : flat_MX.shape[1]])
            hidden_CPD = share_MD.unflatten(0, (tiles, candidates)) + queries_CSD[:, s].unsqueeze(1)
            query_CPD = generate.query(F.silu(hidden_CPD))
            history_CTD = histories_CSTD[:, s]
            scale = 1 / (query_CPD.shape[2] ** 0.5 * model.temperature)
            scores_CPT = query_CPD @ history_CTD.transpose(1, 2) * scale + masks_CST[:, s].unsqueeze(1)
            read_CPD = torch.softmax(scores_CPT, -1) @ history_CTD * known_CS[:, s, None, None]
            decoded.append(read_CPD.flatten(0, 1).unsqueeze(0))
        tokens_TMD = model.mixers[0](torch.cat([*decoded, tokens_NMD], 0))
        tasks = model.ple(tokens_TMD.transpose(0, 1).flatten(1))
        logits_MK = torch.cat([head(task) for head, task in zip(model.heads, tasks, strict=True)], 1)
        return torch.sigmoid(logits_MK).unflatten(0, (tiles, candidates))
