"""Files in object stores: ``s3://``, ``gs://``, ``hdfs://`` and ``file://`` (docs/stores.md)."""
