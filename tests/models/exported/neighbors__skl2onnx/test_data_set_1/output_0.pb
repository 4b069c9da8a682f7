BvariableJ`
@`
@˜s@’VÛ?kOÎ¾Ü)º¿Ü)º¿