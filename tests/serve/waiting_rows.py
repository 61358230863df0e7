"""What a service keeps of rows that wait for their label."""

from undrift.run.service.served_run import KeptRow


def model_with_rows(service):
    """Return a copy of a service's model that keeps the rows which wait, as a model that was asked itself would."""
    model = service.models.model.copy()
    for number, _ in service.journal.oldest_rows(service.waiting):
        row = service.journal.find_rows([number])[number].row
        model.adopt_record(row.serial, KeptRow.unpack(row.record).record[1:])
    return model


def entries(service):
    """Return the entries that a restart would repeat."""
    return list(service.journal.entries_after(service.journal.last_snapshot().sequence))
