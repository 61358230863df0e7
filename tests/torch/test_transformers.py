"""Hugging Face's Trainer: it evaluates with the averaged weights, saves with them in place, and resumes bit for bit."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate, which Trainer needs, is not installed")

from safetensors.torch import load_file  # noqa: E402  # after the skips

from undrift.torch import ClippedAdam  # noqa: E402  # after the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer's own


class Tiny(transformers.PreTrainedModel):
    config_class = transformers.PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.post_init()

    def forward(self, z, labels=None):
        out = self.net(z).squeeze(-1)
        return {"loss": (out - labels).square().mean(), "logits": out}


def rows(n, seed):
    z = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return [{"z": row, "labels": row[0].abs()} for row in z]


def trainer_of(folder, **options):
    torch.manual_seed(0)
    model = Tiny(transformers.PretrainedConfig())
    opt = ClippedAdam(model.parameters(), lr=0.05, **options)
    constant = torch.optim.lr_scheduler.LambdaLR(opt, lambda _: 1.0)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=12, eval_strategy="steps", eval_steps=4, save_strategy="steps", save_steps=4,
        load_best_model_at_end=True, metric_for_best_model="eval_loss", greater_is_better=False, seed=0,
        per_device_train_batch_size=4, per_device_eval_batch_size=8, report_to=[], use_cpu=True, disable_tqdm=True,
        logging_steps=4,
    )  # fmt: skip
    data = {"train_dataset": rows(64, 1), "eval_dataset": rows(32, 2)}
    return transformers.Trainer(model=model, args=arguments, optimizers=(opt, constant), **data), opt


@pytest.mark.parametrize("options", [{}, {"average": False}, {"average_horizon": None}])
def test_a_run_that_evaluates_and_saves_resumes_bit_for_bit(tmp_path, options):
    straight, opt = trainer_of(tmp_path / "straight", **options)
    straight.train()
    again, resumed = trainer_of(tmp_path / "again", **options)
    again.train(resume_from_checkpoint=str(tmp_path / "straight" / "checkpoint-8"))
    assert opt.param_groups[0]["t"] == resumed.param_groups[0]["t"] == 12
    one, two = (load_file(tmp_path / run / "checkpoint-12" / "model.safetensors") for run in ("straight", "again"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    first, second = (
        torch.load(tmp_path / run / "checkpoint-12" / "optimizer.pt", weights_only=True)
        for run in ("straight", "again")
    )
    assert first["param_groups"] == second["param_groups"]
    for index, state in first["state"].items():
        assert ("x" in state) is opt.param_groups[0]["average"]  # saved with the averaged weights in place
        assert all(torch.equal(value, second["state"][index][name]) for name, value in state.items())


def test_what_is_saved_is_the_averaged_model(tmp_path):
    trainer, opt = trainer_of(tmp_path)
    trainer.args.load_best_model_at_end = False
    trainer.train()
    opt.train()
    saved = load_file(tmp_path / "checkpoint-12" / "model.safetensors")
    with opt.averaged():
        assert all(torch.equal(value, saved[name]) for name, value in trainer.model.state_dict().items())
    assert not all(torch.equal(value, saved[name]) for name, value in trainer.model.state_dict().items())
