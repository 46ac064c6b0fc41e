"""Sealing what people approve with AES-GCM, under keys that the journal does not hold.

```python
seal = AesGcmSeal({"2026-01": key}, current="2026-01")
agent = define_agent("refunds", ..., seal=seal)
```

Needs `pip install "clew[encryption]"`.
"""

from .aes_gcm import AesGcmSeal

__all__ = ["AesGcmSeal"]
