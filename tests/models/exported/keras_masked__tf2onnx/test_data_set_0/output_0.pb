B
Identity:0J(jв─=Y[J?ж╘К= q╬ЗkP©хP©╗Б╬ью╔╫хдX>╬mЦ>