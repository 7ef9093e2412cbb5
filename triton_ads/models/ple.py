"""PLE: experts of a task's own and shared ones, mixed by the task's gate (Tang et al., RecSys 2020, equations 2 to 7).

    gate_k = softmax(W_k x)  over own experts of task k and the shared ones
    x_k    = sum_e gate_k[e] expert_e(x)

One extraction layer, the last one: the paper's gate of the shared experts feeds only a further layer, so there is
none. An expert is one fully connected layer with ReLU. iQIYI has "3 single-layer experts"; one own expert for each of
2 labels and 1 shared make 3. How the source divides its three between tasks it does not say.
"""

# Legend: M rows, I width in, A experts of a task (own, then shared), e expert width.

import torch
from torch import Tensor, nn


class PLE(nn.Module):
    def __init__(self, width: int, tasks: int, own_experts: int, shared_experts: int, expert_width: int) -> None:
        super().__init__()
        self.own_experts = own_experts
        self.own = nn.ModuleList(nn.Linear(width, expert_width) for _ in range(tasks * own_experts))  # task by task
        self.shared = nn.ModuleList(nn.Linear(width, expert_width) for _ in range(shared_experts))
        self.gates = nn.ModuleList(nn.Linear(width, own_experts + shared_experts) for _ in range(tasks))

    def gate(self, task: int, x_MI: Tensor) -> Tensor:
        """Weights of a task's experts, own then shared: float32 [M, A], each row sums to 1."""
        return torch.softmax(self.gates[task](x_MI), dim=-1)

    def forward(self, x_MI: Tensor) -> list[Tensor]:
        """One representation [M, e] for each task."""
        shared = [torch.relu(expert(x_MI)) for expert in self.shared]
        tasks = []
        for task in range(len(self.gates)):
            experts = self.own[task * self.own_experts : (task + 1) * self.own_experts]
            own = [torch.relu(expert(x_MI)) for expert in experts]
            experts_MAe = torch.stack(own + shared, dim=1)
            tasks.append((self.gate(task, x_MI).unsqueeze(-1) * experts_MAe).sum(dim=1))
        return tasks
