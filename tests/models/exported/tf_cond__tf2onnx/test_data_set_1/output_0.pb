B
Identity:0J…³ˆ¿˜Í?›q'?+ã¿