"""Lightning: fit, save, resume; validation at the averaged weights."""

import pytest

torch = pytest.importorskip("torch")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from undrift.torch import ClippedAdam  # noqa: E402  # after the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 1)
        self.seen = []

    def training_step(self, batch, index):
        return (self.net(batch) - batch[:, :1]).square().mean()

    def validation_step(self, batch, index):
        with self.optimizers().optimizer.averaged():
            self.seen.append(float((self.net(batch) - batch[:, :1]).square().mean()))

    def configure_optimizers(self):
        return ClippedAdam(self.parameters(), lr=0.05)


def fit(folder, epochs, checkpoint=None):
    torch.manual_seed(0)
    module = Module()
    data = torch.randn(32, 3, generator=torch.Generator().manual_seed(1))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=folder, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(module, loader, loader, ckpt_path=checkpoint)
    trainer.save_checkpoint(folder / f"{epochs}.ckpt")
    return module, trainer.optimizers[0]


def test_a_run_resumes_bit_for_bit(tmp_path):
    straight, opt = fit(tmp_path, 4)
    fit(tmp_path, 2)
    again, resumed = fit(tmp_path, 4, tmp_path / "2.ckpt")
    assert torch.equal(straight.net.weight, again.net.weight)
    assert torch.equal(opt.average_of(straight.net.weight), resumed.average_of(again.net.weight))
    assert straight.seen[-4:] == again.seen[-4:]
    assert opt.param_groups[0]["t"] == 16
